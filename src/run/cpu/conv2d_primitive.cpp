// Convolutions by oneDNN; after doubling by nearest neighbour four small ones, as conv2d.cpp explains.
#include <cstring>

#include "plan/arena.h"
#include "run/cpu/conv_window.h"
#include "run/cpu/facts.h"
#include "run/cpu/onednn.h"
#include "run/cpu/simd.h"

namespace danqing::cpu {

namespace {

using dnnl::memory;

struct Padding {
  memory::dims begin, end;  // {above, left}, {below, right}
};

std::unique_ptr<PrimitiveKernel> primitive(const Conv2d& op, const Site& site, const Shape& to, const Padding& pad) {
  const Team team(site.ways.threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto type = onednn_type(site.in[0].dtype);
  const auto picture = [&](const Shape& s) {  // oneDNN names sizes N, C, H, W whatever the layout
    return memory::desc({s[0], s[3], s[1], s[2]}, type, memory::format_tag::nhwc);
  };
  const Shape& w = site.in[1].shape;
  const memory::dims sizes{w[0], w[1], w[2], w[3]}, strides{op.stride, op.stride};
  const memory::desc x = picture(site.in[0].shape), out = picture(to);
  const memory::desc weight(sizes, type, memory::format_tag::any), plain(sizes, type, memory::format_tag::oihw);
  const memory::desc bias =
      op.has_bias ? memory::desc({w[0]}, memory::data_type::f32, memory::format_tag::x) : memory::desc();
  const dnnl::primitive_attr attr = attributes(op.activation, op.residual ? Combine::add : Combine::none, out);
  constexpr auto kInference = dnnl::prop_kind::forward_inference;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc description(engine, kInference, kDirect, x, weight, bias, out,
                                                              strides, pad.begin, pad.end, attr);
#else
  const dnnl::convolution_forward::primitive_desc description(
      {kInference, kDirect, x, weight, bias, out, strides, pad.begin, pad.end}, attr, engine);
#endif
  return std::make_unique<PrimitiveKernel>(engine, description, plain, site, op.has_bias,
                                           op.activation != Activation::none);
}

constexpr int kParts = 4;

// Each part computes the output pixels of one parity into scratch, from where they are spread. `packed` and scratch
// hold, one after another, each part's weights; the small result and what the primitives need.
class FoldedConv : public Kernel {
 public:
  FoldedConv(const Conv2d& op, const Site& site) : weight_(site.in[1]), threads_(site.ways.threads) {
    const Shape &from = site.in[0].shape, &w = weight_.shape;
    small_ = {site.in[0].dtype, {from[0], from[1], from[2], w[0]}};
    folded_ = {small_.dtype, {w[0], w[1], 2, 2}};
    Site part = site;
    part.in[1] = folded_;
    facts_ = {Bytes(0), plain_facts(site).packed, false};
    facts_.packed[1] = Bytes(0);
    for (int64_t p = 0; p < kParts; ++p) {
      const int64_t dy = p / 2, dx = p % 2;
      parts_[p] = primitive(op, part, small_.shape, {{1 - dy, 1 - dx}, {dy, dx}});
      const NodeFacts facts = parts_[p]->facts();
      at_[p] = facts_.packed[1].value;
      size_[p] = facts.packed[1].value;
      facts_.packed[1] += Bytes(aligned(facts.packed[1].value));
      facts_.scratch = std::max(facts_.scratch, facts.scratch);
    }
    facts_.scratch += Bytes(aligned(size_of(small_).value));
  }

  NodeFacts facts() const override { return facts_; }

  void pack(size_t input, std::span<const std::byte> plain, std::span<std::byte> packed) const override {
    if (input != 1) return Kernel::pack(input, plain, packed);
    const auto count = static_cast<size_t>(weight_.shape.count());
    std::vector<float> wide(count), sums(count / 9 * 4);
    to_f32(weight_.dtype, plain.data(), wide.data(), weight_.shape.count());
    std::vector<std::byte> narrow(static_cast<size_t>(size_of(folded_).value));
    for (int64_t p = 0; p < kParts; ++p) {
      for (size_t filter = 0; filter < count / 9; ++filter)  // one channel: a filter [3, 3] to one [2, 2]
        fold(p, DType::f32, reinterpret_cast<const std::byte*>(&wide[filter * 9]), 1, 0, 4, &sums[filter * 4]);
      from_f32(folded_.dtype, sums.data(), narrow.data(), folded_.shape.count());
      parts_[p]->pack(1, narrow, packed.subspan(static_cast<size_t>(at_[p]), static_cast<size_t>(size_[p])));
    }
  }

  void run(const KernelArguments& a) override {
    auto* const scratch = static_cast<std::byte*>(a.scratch);
    std::array<Tensor, 3> in;
    std::ranges::copy(a.in, in.begin());
    for (int64_t p = 0; p < kParts; ++p) {
      in[1] = {static_cast<std::byte*>(a.in[1].data) + at_[p], folded_};
      parts_[p]->run({{in.data(), a.in.size()}, {scratch, small_}, scratch + aligned(size_of(small_).value), {}});
      spread(p, scratch, static_cast<std::byte*>(a.out.data));
    }
  }

 private:
  void spread(int64_t part, const std::byte* from, std::byte* to) const {
    const int64_t width = small_.shape[2], lines = small_.shape[0] * small_.shape[1];
    const int64_t pixel = bytes_of(small_.dtype, small_.shape[3]);
#pragma omp parallel for num_threads(threads_)
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t x = 0; x < width; ++x)
        std::memcpy(to + ((line * 2 + part / 2) * width * 2 + x * 2 + part % 2) * pixel,
                    from + (line * width + x) * pixel, static_cast<size_t>(pixel));
  }

  TensorType weight_, small_, folded_;
  int threads_;
  NodeFacts facts_;
  std::array<std::unique_ptr<PrimitiveKernel>, kParts> parts_;
  std::array<int64_t, kParts> at_, size_;  // bytes of a part's weights
};

}  // namespace

std::unique_ptr<Kernel> make_primitive(const Conv2d& op, const Site& site) {
  if (op.upsample) return std::make_unique<FoldedConv>(op, site);
  return primitive(op, site, site.node.type.shape, {{op.pad, op.pad}, {op.pad_end, op.pad_end}});
}

}  // namespace danqing::cpu
