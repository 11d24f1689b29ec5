#include "run/device.h"

#include <algorithm>

namespace danqing {

void* Device::allocate(Bytes bytes, const std::string& what) {
  if (limit_.value && allocated_ + bytes > limit_)
    throw Error(Fault::capacity, what + " needs " + to_string(bytes) + ", with " + to_string(allocated_) + " of " +
                                     to_string(limit_) + " taken already");
  void* memory = get_memory(bytes, what);
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  return memory;
}

void Device::release(void* memory, Bytes bytes) {
  free_memory(memory, bytes);
  allocated_ -= bytes;
}

}  // namespace danqing
