// What the fuzz targets of all readers share: bytes as a file, and the promise that every tensor lies inside it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "weights/container.h"

namespace danqing {

inline File fuzz_file(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("fuzz", 0);
  if (write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  return File::adopt(descriptor, "fuzz");
}

// An Error, or a container whose tensors all lie inside the file.
inline int fuzz_reader(Contents (*read)(const File&), const uint8_t* data, size_t size) {
  const File file = fuzz_file(data, size);
  try {
    for (const TensorInfo& t : read(file).tensors)
      if (t.offset > size || t.bytes > size - t.offset) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace danqing
