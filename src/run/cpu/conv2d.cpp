// Convolutions: oneDNN's packed primitive where the processor has AVX-512 and weights are held as activations are; else
// products of tiles of output pixels, whose windows are gathered block by block (never the whole picture), with weights
// [O, kh, kw, I] in their own dtype. A 3x3 convolution after doubling by nearest neighbour is four 2x2 convolutions of
// the small picture, one for each parity of the output's row and column, with sums of the nine weights: 4/9 of the
// products, and the same result but for rounding.
#include <algorithm>
#include <cstring>

#include "run/cpu/conv_window.h"
#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/gemm.h"
#include "run/cpu/onednn.h"
#include "run/cpu/simd.h"

namespace danqing::cpu {

namespace {

struct ConvOperands : Operands {
  const Conv2d& op;
  const KernelArguments& a;
  const bool folded;
  Shape from, to;        // [N, H, W, C]
  int64_t size, kernel;  // taps a side: of the product, of the checkpoint

  ConvOperands(const Conv2d& conv, const KernelArguments& arguments)
      : op(conv),
        a(arguments),
        folded(folds(conv, a.in[1].type.shape)),
        from(a.in[0].type.shape),
        to(a.out.type.shape),
        size(folded ? 2 : a.in[1].type.shape[3]),
        kernel(a.in[1].type.shape[3]) {}

  // Pixels of one part's product: all of the output, or those of one parity.
  int64_t height() const { return folded ? from[1] : to[1]; }
  int64_t width() const { return folded ? from[2] : to[2]; }

  Block left(const Tile& t, int64_t k, int64_t depth, float* scratch) const override {
    const DType dtype = a.in[0].type.dtype;
    if (is_product(op, a.in[1].type.shape) && dtype == DType::f32)
      return {static_cast<float*>(a.in[0].data) + t.row * from[3] + k, from[3]};
    const Window window = folded ? Window::folded(t.part) : Window{size, op.stride, op.pad, op.pad, op.upsample};
    gather(window, a.in[0], t, height(), width(), k, depth, scratch);
    return {scratch, depth};
  }

  Block right(const Tile& t, int64_t k, int64_t depth, float* scratch) const override {
    const DType dtype = a.in[1].type.dtype;
    const int64_t pitch = kernel * kernel * from[3];
    const auto* weights = static_cast<const std::byte*>(a.in[1].data);
    if (!folded && dtype == DType::f32) return {static_cast<float*>(a.in[1].data) + t.column * pitch + k, pitch};
    for (int64_t n = 0; n < t.columns; ++n) {
      const std::byte* filter = weights + bytes_of(dtype, (t.column + n) * pitch);
      if (folded)
        fold(t.part, dtype, filter, from[3], k, depth, scratch + n * depth);
      else
        to_f32(dtype, filter + bytes_of(dtype, k), scratch + n * depth, depth);
    }
    return {scratch, depth};
  }

  Block target(const Tile& t, float* scratch) const override {
    if (folded || a.out.type.dtype != DType::f32) return {scratch, t.columns};
    return {static_cast<float*>(a.out.data) + t.row * to[3] + t.column, to[3]};
  }

  void finish(const Tile& t, Block c) const override {
    if (!folded) return finish_run(t, c, t.row, 1, t.rows);
    const int64_t dy = t.part / 2, dx = t.part % 2;
    for (int64_t row = t.row; row < t.row + t.rows;) {  // a run of pixels within one line
      const int64_t line = row / from[2], x = row % from[2];
      const int64_t count = std::min(from[2] - x, t.row + t.rows - row);
      const int64_t pixel = (line * 2 + dy) * to[2] + x * 2 + dx;  // lines of all images on end: image n starts at n*H
      finish_run(t, {c.data + (row - t.row) * c.pitch, c.pitch}, pixel, 2, count);
      row += count;
    }
  }

  void finish_run(const Tile& t, Block c, int64_t pixel, int64_t step, int64_t count) const {
    const int64_t offset = bytes_of(a.out.type.dtype, pixel * to[3] + t.column);
    Epilogue e{.activation = op.activation, .type = a.out.type.dtype};
    if (op.has_bias) e.bias = static_cast<const float*>(a.in[2].data) + t.column;
    if (op.residual) e.combine = Combine::add, e.extra = static_cast<const std::byte*>(a.in.back().data) + offset;
    e.out = static_cast<std::byte*>(a.out.data) + offset;
    e.extra_stride = e.out_stride = step * to[3];
    epilogue(e, c.data, count, t.columns, c.pitch);
  }
};

class TiledConv : public Kernel {
 public:
  TiledConv(const Conv2d& op, const Site& site)
      : op_(op),
        weight_(site.in[1]),
        parts_(folds(op, weight_.shape) ? 4 : 1),
        tiling_(site.node.type.shape.rows() / parts_, weight_.shape[1] * (parts_ == 4 ? 4 : taps()), weight_.shape[0]),
        copies_{!is_product(op, weight_.shape) || site.in[0].dtype != DType::f32,
                parts_ == 4 || weight_.dtype != DType::f32, parts_ == 4 || site.node.type.dtype != DType::f32},
        packed_(plain_facts(site).packed),
        threads_(site.ways.threads) {}

  NodeFacts facts() const override { return {scratch_of(tiling_, copies_, threads_), packed_, taps() == 1}; }

  void pack(size_t input, std::span<const std::byte> plain, std::span<std::byte> packed) const override {
    if (input != 1 || taps() == 1) return Kernel::pack(input, plain, packed);
    DANQING_CHECK(plain.size() == packed.size() && bytes_of(weight_.dtype, 1) <= 4);
    if (weight_.dtype == DType::f32)
      channels_last<uint32_t>(plain, packed);
    else
      channels_last<uint16_t>(plain, packed);
  }

  void run(const KernelArguments& a) override {
    multiply(tiling_, parts_, ConvOperands(op_, a), copies_, a.scratch, threads_);
  }

 private:
  int64_t taps() const { return weight_.shape[2] * weight_.shape[3]; }

  template <class T>
  void channels_last(std::span<const std::byte> plain, std::span<std::byte> packed) const {
    const int64_t outputs = weight_.shape[0], inputs = weight_.shape[1];
    const auto* from = reinterpret_cast<const T*>(plain.data());
    auto* to = reinterpret_cast<T*>(packed.data());
#pragma omp parallel for num_threads(threads_)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t t = 0; t < taps(); ++t)
        for (int64_t i = 0; i < inputs; ++i)
          std::memcpy(to + (o * taps() + t) * inputs + i, from + (o * inputs + i) * taps() + t, sizeof(T));
  }

  Conv2d op_;
  TensorType weight_;
  int64_t parts_;
  Tiling tiling_;
  Copies copies_;
  std::vector<Bytes> packed_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Conv2d& op, const Site& site) {
  check_product_types(site);
  const bool primitive = !op.upsample || (folds(op, site.in[1].shape) && !op.residual);
  if (primitive && suits_primitives(site)) return make_primitive(op, site);
  return std::make_unique<TiledConv>(op, site);
}

}  // namespace danqing::cpu
