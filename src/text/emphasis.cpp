#include "text/emphasis.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace danqing {

namespace {

double mean(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

bool all_one(std::span<const float> weights) {
  return std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 1.0f; });
}

void multiply(std::span<float> chunk, std::span<const float> weights, size_t width) {
  for (size_t i = 0; i < chunk.size(); ++i) chunk[i] *= weights[i / width];
}

void restore_mean(std::span<float> chunk, double wanted) {
  const float scale = static_cast<float>(wanted / mean(chunk));
  if (!std::isfinite(scale)) return;
  for (float& value : chunk) value *= scale;
}

void interpolate(std::span<float> chunk, std::span<const float> weights, size_t width, std::span<const float> empty) {
  for (size_t i = 0; i < chunk.size(); ++i) {
    const float weight = weights[i / width];
    if (weight != 1.0f) chunk[i] = (chunk[i] - empty[i]) * weight + empty[i];
  }
}

}  // namespace

void apply_emphasis(Emphasis emphasis, std::span<float> embedding, std::span<const float> weights, int64_t width,
                    int64_t tokens_per_chunk, std::span<const float> empty) {
  DANQING_CHECK(width > 0 && tokens_per_chunk > 0);
  const size_t columns = static_cast<size_t>(width), rows = static_cast<size_t>(tokens_per_chunk);
  DANQING_CHECK(embedding.size() == weights.size() * columns && weights.size() % rows == 0);
  DANQING_CHECK(emphasis != Emphasis::interpolation || empty.size() == rows * columns);
  if (emphasis == Emphasis::none) return;
  for (size_t row = 0; row < weights.size(); row += rows) {
    const std::span<const float> weight = weights.subspan(row, rows);
    if (all_one(weight)) continue;
    const std::span<float> chunk = embedding.subspan(row * columns, rows * columns);
    if (emphasis == Emphasis::interpolation) {
      interpolate(chunk, weight, columns, empty);
      continue;
    }
    const double before = mean(chunk);
    multiply(chunk, weight, columns);
    if (emphasis == Emphasis::original) restore_mean(chunk, before);
  }
}

}  // namespace danqing
