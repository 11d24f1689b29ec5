// A latent cut into overlapping tiles and the decoded tiles blended into one picture. Weights fall linearly over the
// overlap and are divided out at the end, so they sum to one at every pixel, corners included: tiles that agree give no
// seam.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace danqing {

class TileGrid {
 public:
  // Sizes in latent cells; `factor` pixels a cell each way.
  TileGrid(int64_t height, int64_t width, int64_t tile, int64_t factor);

  int64_t count() const { return static_cast<int64_t>(rows_.size() * columns_.size()); }
  int64_t tile_height() const { return tile_height_; }
  int64_t tile_width() const { return tile_width_; }

  // latent [channels, height, width] -> [tile_height, tile_width, channels].
  void cut(int64_t tile, std::span<const float> latent, int64_t channels, std::span<float> out) const;
  // part [tile_height*f, tile_width*f, 3] into sums: [height*f * width*f * 3] weighted values, then [height*f *
  // width*f] weights.
  void blend(int64_t tile, std::span<const float> part, std::span<float> sums) const;
  void normalise(std::span<float> sums) const;

 private:
  int64_t height_, width_, tile_height_, tile_width_, factor_;
  std::vector<int64_t> rows_, columns_;
};

}  // namespace danqing
