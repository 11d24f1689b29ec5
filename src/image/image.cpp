#include "image/image.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "image/codec.h"

namespace danqing {
namespace codec {

void broken(const std::string& name, const std::string& why) { throw Error(Fault::file, name + ": " + why); }

Format format_of(View bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return Format::png;
  if (text.starts_with("\xff\xd8\xff")) return Format::jpeg;
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return Format::webp;
  const char* kind = text.empty()                                                ? "an empty file"
                     : text.starts_with("GIF8")                                  ? "a GIF"
                     : text.starts_with("BM")                                    ? "a BMP"
                     : text.starts_with("II*") || text.starts_with("MM\0*")      ? "a TIFF"
                     : text.size() > 12 && text.substr(4, 8).starts_with("ftyp") ? "AVIF, HEIC or a video"
                                                                                 : "no picture known here";
  broken(name, std::string("this is ") + kind + "; pictures must be PNG, JPEG or WebP");
}

void check_size(int64_t width, int64_t height, int64_t justified, const std::string& name) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width <= 0 || height <= 0) broken(name, "a picture of " + size + " pixels");
  if (width > kMaxPixels / height) {
    broken(name, size + " pixels, the limit is " + std::to_string(kMaxPixels) + " in all");
  }
  if (width * height > justified) {
    broken(name, "its header says " + size + " pixels, more than a file of its length can hold");
  }
}

}  // namespace codec

namespace {

using codec::Raster;

Raster decode(codec::View bytes, const std::string& name) {
  switch (codec::format_of(bytes, name)) {
    case codec::Format::png:
      return codec::decode_png(bytes, name);
    case codec::Format::jpeg:
      return codec::decode_jpeg(bytes, name);
    case codec::Format::webp:
      break;
  }
  return codec::decode_webp(bytes, name);
}

// Calls put(index of the upright pixel, the stored pixel) for all pixels. EXIF: 2 mirrored, 3 turned by 180, 4 upside
// down, 5 transposed, 6 to be turned right, 7 transversed, 8 to be turned left.
template <class Put>
void each_upright(const Raster& r, Put put) {
  const int o = r.orientation;
  const bool swap = o >= 5, mirror_x = o == 2 || o == 3 || o == 7 || o == 8,
             mirror_y = o == 3 || o == 4 || o == 6 || o == 7;
  const uint8_t* pixel = r.rgba.data();
  for (int y = 0; y < r.height; ++y) {
    for (int x = 0; x < r.width; ++x, pixel += 4) {
      // Turned pictures: the stored row becomes the column.
      const size_t across = swap ? (mirror_y ? r.height - 1 - y : y) : (mirror_x ? r.width - 1 - x : x);
      const size_t down = swap ? (mirror_x ? r.width - 1 - x : x) : (mirror_y ? r.height - 1 - y : y);
      put(down * (swap ? r.height : r.width) + across, pixel);
    }
  }
}

std::pair<int, int> upright_size(const Raster& r) {
  return r.orientation >= 5 ? std::pair(r.height, r.width) : std::pair(r.width, r.height);
}

uint8_t over(int value, int alpha, int background) {
  return uint8_t((value * alpha + background * (255 - alpha) + 127) / 255);
}

}  // namespace

Image read_image(std::span<const uint8_t> bytes, const std::string& name) {
  const Raster raster = decode(bytes, name);
  Image image;
  std::tie(image.width, image.height) = upright_size(raster);
  image.rgb.resize(size_t{3} * image.width * image.height);
  each_upright(raster, [&](size_t at, const uint8_t* p) {
    for (int c = 0; c < 3; ++c) image.rgb[3 * at + c] = over(p[c], p[3], 255);
  });
  return image;
}

Mask read_mask(std::span<const uint8_t> bytes, const std::string& name) {
  const Raster raster = decode(bytes, name);
  Mask mask;
  std::tie(mask.width, mask.height) = upright_size(raster);
  mask.value.resize(size_t(mask.width) * mask.height);
  each_upright(raster, [&](size_t at, const uint8_t* p) {
    const int r = over(p[0], p[3], 0), g = over(p[1], p[3], 0), b = over(p[2], p[3], 0);
    mask.value[at] = uint8_t((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
  });
  return mask;
}

Image read_image(const std::string& path) { return read_image(codec::read_picture_file(path), path); }
Mask read_mask(const std::string& path) { return read_mask(codec::read_picture_file(path), path); }

}  // namespace danqing
