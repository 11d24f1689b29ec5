#include "image/write.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "image/codec.h"

namespace danqing {
namespace {

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  }
  return text;
}

std::string ending_of(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  return ending.empty() ? ending : ending.substr(1);
}

std::optional<codec::Format> format_named(const std::string& ending) {
  const std::string e = lower(ending);
  if (e == "png") return codec::Format::png;
  if (e == "jpg" || e == "jpeg") return codec::Format::jpeg;
  if (e == "webp") return codec::Format::webp;
  return {};
}

}  // namespace

bool is_picture_ending(const std::string& ending) { return format_named(ending).has_value(); }

void check_picture_ending(const std::string& path) {
  const std::string ending = ending_of(path);
  if (is_picture_ending(ending)) return;
  throw Error(Fault::request, "cannot tell the format of \"" + path + "\" by its ending " +
                                  (ending.empty() ? "(it has none)" : "\"." + ending + "\"") +
                                  ": use .png, .jpg, .jpeg or .webp");
}

std::vector<uint8_t> encode_image(const std::string& ending, const Image& image, const Metadata& metadata,
                                  const WriteOptions& options) {
  const auto format = format_named(ending);
  if (!format) {
    throw Error(Fault::request, "no picture format has the ending \"" + ending + "\": use png, jpg, jpeg or webp");
  }
  if (options.quality < 1 || options.quality > 100) {
    throw Error(Fault::request, "quality " + std::to_string(options.quality) + " is not between 1 and 100");
  }
  DANQING_CHECK(image.width > 0 && image.height > 0);
  DANQING_CHECK(image.rgb.size() == size_t{3} * image.width * image.height);
  switch (*format) {
    case codec::Format::png:
      return codec::encode_png(image, metadata, options);
    case codec::Format::jpeg:
      return codec::encode_jpeg(image, metadata, options);
    case codec::Format::webp:
      break;
  }
  return codec::encode_webp(image, metadata, options);
}

void write_image(const std::string& path, const Image& image, const Metadata& metadata, const WriteOptions& options,
                 Existing existing) {
  check_picture_ending(path);
  write_file(path, encode_image(ending_of(path), image, metadata, options), existing);
}

Metadata read_metadata(std::span<const uint8_t> bytes, const std::string& name) {
  switch (codec::format_of(bytes, name)) {
    case codec::Format::png:
      return codec::png_metadata(bytes, name);
    case codec::Format::jpeg:
      return codec::jpeg_metadata(bytes, name);
    case codec::Format::webp:
      break;
  }
  return codec::webp_metadata(bytes, name);
}

Metadata read_metadata(const std::string& path) { return read_metadata(codec::read_picture_file(path), path); }

}  // namespace danqing
