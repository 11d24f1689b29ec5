// Any bytes as a GGUF file.
#include "weights/reader_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return danqing::fuzz_reader(danqing::read_gguf, data, size);
}
