#include "run/cpu/conv_window.h"

#include <algorithm>
#include <cstring>

#include "run/cpu/simd.h"

namespace danqing::cpu {

namespace {

void copy_row(DType dtype, const std::byte* from, float* to, int64_t count) {
  if (dtype == DType::f32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else
    to_f32(dtype, from, to, count);
}

// The rows (or columns) of a 3x3 filter that tap `tap` of a 2x2 one sums, for the given parity of the output.
struct Taps {
  int64_t begin, end;
};
constexpr Taps folded_taps(int64_t parity, int64_t tap) {
  if (parity == 0) return tap == 0 ? Taps{0, 1} : Taps{1, 3};
  return tap == 0 ? Taps{0, 2} : Taps{2, 3};
}

}  // namespace

void gather(const Window& window, const Tensor& picture, const Tile& tile, int64_t height, int64_t width, int64_t k,
            int64_t depth, float* to) {
  const Shape& shape = picture.type.shape;
  const DType dtype = picture.type.dtype;
  const int64_t channels = shape[3], scale = window.doubled ? 2 : 1;
  const auto* source = static_cast<const std::byte*>(picture.data);
  for (int64_t r = tile.row; r < tile.row + tile.rows; ++r) {
    const int64_t image = r / (height * width), y0 = r / width % height * window.stride - window.top;
    const int64_t x0 = r % width * window.stride - window.left;
    for (int64_t i = k; i < k + depth;) {
      const int64_t tap = i / channels, c = i % channels, ky = tap / window.size, kx = tap % window.size;
      const int64_t y = y0 + ky, x = x0 + kx;
      int64_t count = std::min(channels - c, k + depth - i);
      if (y < 0 || x < 0 || y >= shape[1] * scale || x >= shape[2] * scale) {
        std::memset(to, 0, static_cast<size_t>(count) * sizeof(float));
      } else {
        // Neighbours in a line lie on end, so what is left of the window's line is one piece.
        if (!window.doubled && x0 + window.size <= shape[2])
          count = std::min((window.size - kx) * channels - c, k + depth - i);
        const int64_t at = ((image * shape[1] + y / scale) * shape[2] + x / scale) * channels + c;
        copy_row(dtype, source + bytes_of(dtype, at), to, count);
      }
      to += count, i += count;
    }
  }
}

void fold(int64_t part, DType dtype, const std::byte* filter, int64_t channels, int64_t k, int64_t depth, float* to) {
  constexpr int64_t kPiece = 256;
  float row[kPiece];
  for (int64_t i = k; i < k + depth;) {
    const int64_t tap = i / channels, c = i % channels;
    const int64_t count = std::min({channels - c, k + depth - i, kPiece});
    const Taps ys = folded_taps(part / 2, tap / 2), xs = folded_taps(part % 2, tap % 2);
    std::fill_n(to, count, 0.0f);
    for (int64_t ky = ys.begin; ky < ys.end; ++ky)
      for (int64_t kx = xs.begin; kx < xs.end; ++kx) {
        copy_row(dtype, filter + bytes_of(dtype, (ky * 3 + kx) * channels + c), row, count);
        for (int64_t j = 0; j < count; ++j) to[j] += row[j];
      }
    to += count, i += count;
  }
}

}  // namespace danqing::cpu
