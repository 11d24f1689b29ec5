// Pictures out: PNG, JPEG or WebP by the name's ending, with the texts that say how the picture was made.
//
// Where the texts go: PNG text chunks (tEXt where the text is Latin-1, else iTXt in UTF-8) under the keywords
// "parameters" and "danqing"; JPEG and WebP: EXIF UserComment (UNICODE, UTF-16 big-endian, as piexif writes it) and
// ImageDescription (UTF-8). A JPEG segment ends at 64 KiB: longer EXIF is cut over consecutive APP11 segments that
// begin with "danqing\0". Line ends are kept as they are. A NUL or a byte that is not UTF-8 cannot stand in a text
// chunk and becomes U+FFFD; JSON escapes such characters, so nothing is lost there.
//
// A file appears whole or not at all: written beside its place under a hidden name, synchronised, then renamed. An
// existing file is never replaced unless asked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image/image.h"

namespace danqing {

struct Metadata {
  std::string parameters;  // the classic text block of A1111; empty = none
  std::string json;        // the request as JSON; empty = none
  bool operator==(const Metadata&) const = default;
};

struct WriteOptions {
  int quality = 95;  // JPEG, WebP: 1 to 100; WebP at 100 is lossless
};

enum class Existing { refuse, replace };

// Throws Error(request) unless the path ends in .png, .jpg, .jpeg or .webp (any case): to be called before the work.
void check_picture_ending(const std::string& path);
// The same for a bare ending ("png") as next_free_name takes it.
bool is_picture_ending(const std::string& ending);

// Throws Error(request) if the ending is unknown, the size is beyond the format or the file exists (Existing::refuse);
// Error(file) if it cannot be written (disk full), after which nothing is left behind.
void write_image(const std::string& path, const Image&, const Metadata& = {}, const WriteOptions& = {},
                 Existing = Existing::refuse);
// The bytes of such a file (for a server's reply); `ending` as above.
std::vector<uint8_t> encode_image(const std::string& ending, const Image&, const Metadata& = {},
                                  const WriteOptions& = {});

// Writes folder/stem-NNNN.ending under the first number free, also when other processes do the same; returns the path.
std::string write_numbered(const std::string& folder, const std::string& stem, const std::string& ending, const Image&,
                           const Metadata& = {}, const WriteOptions& = {});

// "stem-0004.png": one more than the highest number any "stem-N.*" in the folder has (an absent folder has none).
std::string next_free_name(const std::string& folder, const std::string& stem, const std::string& ending);

// A file name without ending made from a prompt: UTF-8, no separators, dots, spaces or controls, no leading '-', not a
// reserved name of Windows, never empty, at most max_bytes long (cut between characters).
std::string safe_stem(const std::string& prompt, size_t max_bytes = 120);

// Both texts of a picture, each empty where it has none. Also reads what A1111 and piexif wrote.
Metadata read_metadata(const std::string& path);
Metadata read_metadata(std::span<const uint8_t> bytes, const std::string& name);

// The write underneath, for any bytes: atomic, exclusive with Existing::refuse. Throws as write_image.
void write_file(const std::string& path, std::span<const uint8_t> bytes, Existing = Existing::refuse);

}  // namespace danqing
