#include "model/rope.h"

#include <cmath>

#include "base/error.h"

namespace danqing {

std::vector<float> rope_table(std::span<const RopeAxis> axes, double theta, bool halves) {
  DANQING_CHECK(!axes.empty() && (!halves || axes.size() == 1));
  int64_t width = 0;
  for (const RopeAxis& axis : axes) {
    DANQING_CHECK(axis.width % 2 == 0 && axis.positions.size() == axes[0].positions.size());
    width += axis.width;
  }
  const size_t tokens = axes[0].positions.size();
  std::vector<float> table(tokens * static_cast<size_t>(2 * width));
  for (size_t token = 0; token < tokens; ++token) {
    float* own = table.data() + token * static_cast<size_t>(2 * width);
    float* partners = own + width;
    int64_t at = 0;
    for (const RopeAxis& axis : axes) {
      const int64_t half = axis.width / 2;
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(axis.width));
        const double angle = static_cast<float>(static_cast<double>(axis.positions[token]) * frequency);
        const int64_t first = at + (halves ? i : 2 * i), second = first + (halves ? half : 1);
        own[first] = own[second] = static_cast<float>(std::cos(angle));
        partners[second] = static_cast<float>(std::sin(angle));
        partners[first] = -partners[second];
      }
      at += axis.width;
    }
  }
  return table;
}

}  // namespace danqing
