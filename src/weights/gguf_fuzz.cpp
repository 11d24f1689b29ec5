// Any bytes as a GGUF file: an Error or a checkpoint whose tensors all lie inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "weights/container.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace danqing;
  const int descriptor = memfd_create("fuzz", 0);
  if (write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  const File file = File::adopt(descriptor, "fuzz");
  try {
    for (const TensorInfo& t : read_gguf(file).tensors)
      if (t.offset > size || t.bytes > size - t.offset) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
