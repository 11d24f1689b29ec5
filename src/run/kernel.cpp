#include "run/kernel.h"

#include <cstring>

namespace danqing {

void Kernel::pack(size_t, std::span<const std::byte> plain, std::span<std::byte> packed) const {
  DANQING_CHECK(plain.size() == packed.size());
  std::memcpy(packed.data(), plain.data(), plain.size());
}

}  // namespace danqing
