// Rotary positions as the op Rope wants them: for every token d cosines, then d sines with the partner's sign.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace danqing {

// [tokens, 2 * width], width a multiple of 2. Frequency i of width / 2: theta^(-2i / width). Angles are rounded to f32
// once, as the reference implementations do. halves: see Rope.
struct RopeAxis {
  int64_t width = 0;
  std::span<const int64_t> positions;  // one a token, the same count on all axes
};
std::vector<float> rope_table(std::span<const RopeAxis> axes, double theta, bool halves);

}  // namespace danqing
