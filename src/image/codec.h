// What the three formats share inside this room: a decoded raster, the size rules and one decode/encode/metadata a
// format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/write.h"

namespace danqing::codec {

using Bytes = std::vector<uint8_t>;
using View = std::span<const uint8_t>;

struct Raster {
  int width = 0, height = 0;
  Bytes rgba;           // [height, width, 4], alpha not multiplied in
  int orientation = 1;  // EXIF: 1 to 8
};

enum class Format { png, jpeg, webp };

// Throws Error(file) that names what the bytes are when they are none of the three.
Format format_of(View bytes, const std::string& name);

// Throws unless 0 < width * height <= min(kMaxPixels, justified).
void check_size(int64_t width, int64_t height, int64_t justified, const std::string& name);

[[noreturn]] void broken(const std::string& name, const std::string& why);

Raster decode_png(View, const std::string& name);
Raster decode_jpeg(View, const std::string& name);
Raster decode_webp(View, const std::string& name);

Bytes encode_png(const Image&, const Metadata&, const WriteOptions&);
Bytes encode_jpeg(const Image&, const Metadata&, const WriteOptions&);
Bytes encode_webp(const Image&, const Metadata&, const WriteOptions&);

Metadata png_metadata(View, const std::string& name);
Metadata jpeg_metadata(View, const std::string& name);
Metadata webp_metadata(View, const std::string& name);

// A regular file of at most kMaxPictureFile bytes.
Bytes read_picture_file(const std::string& path);

}  // namespace danqing::codec
