// Pictures in: PNG, JPEG and WebP become 8-bit RGB. What the bytes are decides the format, not the name's ending.
//
// Rules: transparency is composited over white (for a mask: over black), on the encoded values; 16 bit is scaled to 8;
// CMYK becomes RGB as (1-C)(1-K); the EXIF orientation is applied; of an animated WebP the first frame is taken; colour
// profiles and gamma chunks are ignored. GIF is refused.
//
// Hostile input: at most kMaxPixels, and never more pixels than the bytes can hold (deflate packs at most 1032 : 1, a
// JPEG spends at least one bit a block of 64; lossless WebP has no such bound and gets 16 Mi + 4096 a byte). Both are
// checked from the header, before memory for pixels is taken. Truncated or damaged pictures are errors, not grey areas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace danqing {

inline constexpr int64_t kMaxPixels = int64_t{64} << 20;        // 8192 x 8192
inline constexpr int64_t kMaxPictureFile = int64_t{256} << 20;  // bytes of a picture file

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// 255 = repaint, 0 = keep; values between are kept as they are.
struct Mask {
  int width = 0, height = 0;
  std::vector<uint8_t> value;  // [height, width], luma by ITU-R 601-2 as Pillow's "L"
};

// All throw Error(file); `name` is what an error calls the picture.
Image read_image(const std::string& path);
Image read_image(std::span<const uint8_t> bytes, const std::string& name);
Mask read_mask(const std::string& path);
Mask read_mask(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace danqing
