// Places buffers with known lifetimes in one block of memory. Two buffers alive at one time never overlap.
#pragma once

#include <cstdint>
#include <vector>

namespace danqing {

inline constexpr int64_t kArenaAlignment = 64;  // of every offset; a cache line

// The next multiple of the alignment: what is planned and allocated for so many bytes.
inline int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

struct Lifetime {
  int first = 0, last = 0;  // alive from step `first` to step `last`, both included
  int64_t bytes = 0;
};

struct Arena {
  std::vector<int64_t> offsets;  // one a lifetime
  int64_t bytes = 0;
};

// Largest first, each at the lowest offset that is free during its whole life: deterministic.
Arena place(const std::vector<Lifetime>&);

}  // namespace danqing
