#include "plan/arena.h"

#include <algorithm>
#include <numeric>

namespace danqing {

Arena place(const std::vector<Lifetime>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  Arena arena;
  arena.offsets.assign(buffers.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& b = buffers[i];
    if (b.bytes == 0) continue;
    int64_t offset = 0;
    for (size_t k : placed) {
      const Lifetime& other = buffers[k];
      if (other.last < b.first || b.last < other.first) continue;
      if (offset + b.bytes <= arena.offsets[k]) break;  // fits into the gap below
      const int64_t end = arena.offsets[k] + other.bytes;
      offset = std::max(offset, aligned(end));
    }
    arena.offsets[i] = offset;
    arena.bytes = std::max(arena.bytes, offset + b.bytes);
    const auto at = std::ranges::upper_bound(placed, offset, {}, [&](size_t k) { return arena.offsets[k]; });
    placed.insert(at, i);
  }
  arena.bytes = aligned(arena.bytes);
  return arena;
}

}  // namespace danqing
