#include "plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace danqing {
namespace {

int64_t busiest_moment(const std::vector<Lifetime>& buffers, int steps) {
  int64_t most = 0;
  for (int t = 0; t < steps; ++t) {
    int64_t sum = 0;
    for (const Lifetime& b : buffers)
      if (b.first <= t && t <= b.last) sum += b.bytes;
    most = std::max(most, sum);
  }
  return most;
}

TEST(Arena, BuffersAliveTogetherNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int steps = 40;
    std::vector<Lifetime> buffers(1 + random() % 60);
    for (Lifetime& b : buffers) {
      b.first = static_cast<int>(random() % steps);
      b.last = std::min(steps - 1, b.first + static_cast<int>(random() % 6));
      b.bytes = static_cast<int64_t>(random() % 5000);
    }
    const Arena arena = place(buffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(arena.offsets[i] % kArenaAlignment, 0);
      EXPECT_LE(arena.offsets[i] + buffers[i].bytes, arena.bytes);
      for (size_t k = 0; k < i; ++k) {
        const bool together = buffers[i].first <= buffers[k].last && buffers[k].first <= buffers[i].last;
        const bool apart = arena.offsets[i] + buffers[i].bytes <= arena.offsets[k] ||
                           arena.offsets[k] + buffers[k].bytes <= arena.offsets[i];
        ASSERT_TRUE(apart || !together || !buffers[i].bytes || !buffers[k].bytes) << i << " and " << k;
      }
    }
    // Waste is bounded: alignment of each buffer alive, and fragments.
    EXPECT_LE(arena.bytes, busiest_moment(buffers, steps) * 3 / 2 + 64 * 64);
  }
}

TEST(Arena, ReusesWhatIsFree) {
  const Arena arena = place({{0, 1, 1000}, {2, 3, 1000}, {1, 2, 64}});
  EXPECT_EQ(arena.offsets[0], arena.offsets[1]);
  EXPECT_LE(arena.bytes, 1024 + 64);
  EXPECT_EQ(place({}).bytes, 0);
}

}  // namespace
}  // namespace danqing
