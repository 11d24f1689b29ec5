// Linear layers: oneDNN's packed primitive where the processor has AVX-512 and weights are held as activations are;
// else tiles. The weights stay in checkpoint order and dtype; tiles of them are widened to f32 as they are needed.
#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/gemm.h"
#include "run/cpu/onednn.h"
#include "run/cpu/simd.h"

namespace danqing::cpu {

namespace {

struct LinearOperands : Operands {
  const Linear& op;
  const KernelArguments& a;
  LinearOperands(const Linear& linear, const KernelArguments& arguments) : op(linear), a(arguments) {}

  static Block block(const Tensor& t, int64_t row, int64_t rows, int64_t k, int64_t depth, float* scratch) {
    const int64_t pitch = t.type.shape.back();
    if (t.type.dtype == DType::f32) return {static_cast<float*>(t.data) + row * pitch + k, pitch};
    const auto* from = static_cast<const std::byte*>(t.data);
    for (int64_t r = 0; r < rows; ++r)
      to_f32(t.type.dtype, from + bytes_of(t.type.dtype, (row + r) * pitch + k), scratch + r * depth, depth);
    return {scratch, depth};
  }
  Block left(const Tile& t, int64_t k, int64_t depth, float* scratch) const override {
    return block(a.in[0], t.row, t.rows, k, depth, scratch);
  }
  Block right(const Tile& t, int64_t k, int64_t depth, float* scratch) const override {
    return block(a.in[1], t.column, t.columns, k, depth, scratch);
  }
  Block target(const Tile& t, float* scratch) const override {
    if (a.out.type.dtype != DType::f32) return {scratch, t.columns};
    const int64_t pitch = a.out.type.shape.back();
    return {static_cast<float*>(a.out.data) + t.row * pitch + t.column, pitch};
  }
  void finish(const Tile& t, Block c) const override {
    const int64_t pitch = a.out.type.shape.back();
    const int64_t offset = bytes_of(a.out.type.dtype, t.row * pitch + t.column);
    Epilogue e{.activation = op.activation, .combine = op.combine, .type = a.out.type.dtype};
    if (op.has_bias) e.bias = static_cast<const float*>(a.in[2].data) + t.column;
    if (op.combine != Combine::none) e.extra = static_cast<const std::byte*>(a.in.back().data) + offset;
    e.out = static_cast<std::byte*>(a.out.data) + offset;
    e.extra_stride = e.out_stride = pitch;
    epilogue(e, c.data, t.rows, t.columns, c.pitch);
  }
};

class TiledLinear : public Kernel {
 public:
  TiledLinear(const Linear& op, const Site& site)
      : op_(op),
        tiling_(site.in[0].shape.rows(), site.in[1].shape[1], site.in[1].shape[0]),
        copies_{site.in[0].dtype != DType::f32, site.in[1].dtype != DType::f32, site.node.type.dtype != DType::f32},
        packed_(plain_facts(site).packed),
        threads_(site.ways.threads) {}

  NodeFacts facts() const override { return {scratch_of(tiling_, copies_, threads_), packed_, true}; }
  void run(const KernelArguments& a) override {
    multiply(tiling_, 1, LinearOperands(op_, a), copies_, a.scratch, threads_);
  }

 private:
  Linear op_;
  Tiling tiling_;
  Copies copies_;
  std::vector<Bytes> packed_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Linear& op, const Site& site) {
  check_product_types(site);
  if (suits_primitives(site)) return make_primitive(op, site);
  return std::make_unique<TiledLinear>(op, site);
}

}  // namespace danqing::cpu
