// Which pixels and weights a convolution's product reads: windows of the picture, gathered for a block of a tile, and
// the weights of the four small convolutions that a 3x3 convolution after doubling comes to.
#pragma once

#include "run/cpu/gemm.h"
#include "run/kernel.h"

namespace danqing::cpu {

struct Window {
  int64_t size, stride, top, left;  // taps a side; padding before the first row and column
  bool doubled = false;             // reads the picture doubled by nearest neighbour

  // The 2x2 window of output pixels (2y + part / 2, 2x + part % 2), at (y, x) of the small picture.
  static Window folded(int64_t part) { return {2, 1, 1 - part / 2, 1 - part % 2}; }
};

// A convolution that is a product of the picture as it lies.
inline bool is_product(const Conv2d& op, const Shape& weight) {
  return weight[3] == 1 && op.stride == 1 && op.pad == 0 && op.pad_end == 0 && !op.upsample;
}
// A convolution that four 2x2 convolutions of the small picture replace.
inline bool folds(const Conv2d& op, const Shape& weight) {
  return op.upsample && weight[3] == 3 && op.stride == 1 && op.pad == 1 && op.pad_end == 1;
}

// Rows of the tile are output pixels, [N, height, width] on end; values k .. k + depth of each one's window, in the
// order [row, column, channel], go to `to` [rows, depth] in f32.
void gather(const Window&, const Tensor& picture, const Tile&, int64_t height, int64_t width, int64_t k, int64_t depth,
            float* to);

// Values k .. k + depth of the 2x2 filter of `part`, from a 3x3 filter [3, 3, channels].
void fold(int64_t part, DType, const std::byte* filter, int64_t channels, int64_t k, int64_t depth, float* to);

}  // namespace danqing::cpu
