// Any bytes: a picture or an Error, nothing else; also through the metadata and the mask.
#include "base/error.h"
#include "image/image.h"
#include "image/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace danqing;
  const std::span<const uint8_t> bytes(data, size);
  try {
    const Image image = read_image(bytes, "fuzz");
    if (image.rgb.size() != size_t{3} * image.width * image.height) __builtin_trap();
    read_mask(bytes, "fuzz");
  } catch (const Error&) {
  }
  try {
    read_metadata(bytes, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
