#include "pipeline/tiles.h"

#include <algorithm>

#include "model/stable_diffusion.h"

namespace danqing {

TileGrid::TileGrid(int64_t height, int64_t width, int64_t tile, int64_t factor)
    : height_(height),
      width_(width),
      tile_height_(std::min(tile, height)),
      tile_width_(std::min(tile, width)),
      factor_(factor),
      rows_(tile_starts(height, tile)),
      columns_(tile_starts(width, tile)) {}

void TileGrid::cut(int64_t tile, std::span<const float> latent, int64_t channels, std::span<float> out) const {
  const auto columns = static_cast<int64_t>(columns_.size());
  const int64_t top = rows_[static_cast<size_t>(tile / columns)], left = columns_[static_cast<size_t>(tile % columns)];
  for (int64_t y = 0; y < tile_height_; ++y)
    for (int64_t x = 0; x < tile_width_; ++x)
      for (int64_t c = 0; c < channels; ++c)
        out[static_cast<size_t>((y * tile_width_ + x) * channels + c)] =
            latent[static_cast<size_t>((c * height_ + top + y) * width_ + left + x)];
}

// Rises from each edge over a quarter of the tile: the overlap of neighbours.
static float ramp(int64_t at, int64_t size) {
  const int64_t edge = std::min(at, size - 1 - at);
  return static_cast<float>(std::min(edge + 1, std::max<int64_t>(1, size / 4)));
}

void TileGrid::blend(int64_t tile, std::span<const float> part, std::span<float> sums) const {
  const auto columns = static_cast<int64_t>(columns_.size());
  const int64_t top = rows_[static_cast<size_t>(tile / columns)] * factor_,
                left = columns_[static_cast<size_t>(tile % columns)] * factor_;
  const int64_t h = tile_height_ * factor_, w = tile_width_ * factor_, width = width_ * factor_;
  const auto weights = sums.subspan(static_cast<size_t>(3 * height_ * factor_ * width));
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x) {
      const float weight = ramp(y, h) * ramp(x, w);
      const auto at = static_cast<size_t>((top + y) * width + left + x), from = static_cast<size_t>(y * w + x);
      for (size_t c = 0; c < 3; ++c) sums[at * 3 + c] += weight * part[from * 3 + c];
      weights[at] += weight;
    }
}

void TileGrid::normalise(std::span<float> sums) const {
  const auto pixels = static_cast<size_t>(height_ * width_ * factor_ * factor_);
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) sums[i * 3 + c] /= sums[pixels * 3 + i];
}

}  // namespace danqing
