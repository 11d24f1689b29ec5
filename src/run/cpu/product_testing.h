// Plain references of the products, and the ways that are tested.
#pragma once

#include "run/cpu/kernel_testing.h"
#include "run/cpu/reference_testing.h"

namespace danqing::cpu {

// A graph of one node, over inputs and weights of the given types; index 1 (and 2, a bias) are weights.
inline Alone product_alone(const Op& op, TensorType x, TensorType weight, bool has_bias, bool has_extra) {
  Alone a;
  const auto push = [&](Op node, TensorType type, std::string name) {
    a.graph.nodes.push_back({std::move(node), {}, type, std::move(name)});
    return Value{a.graph.size() - 1};
  };
  std::vector<Value> in{push(Input{}, x, "x"), push(Weight{{{"weight"}}}, weight, "weight")};
  if (has_bias) in.push_back(push(Weight{{{"bias"}}}, {DType::f32, {weight.shape[0]}}, "bias"));
  std::vector<TensorType> types;
  if (has_extra) {  // of the result's type, which does not depend on it
    std::vector<TensorType> base;
    for (Value v : in) base.push_back(a.graph[v].type);
    Op bare = op;
    if (auto* linear = std::get_if<Linear>(&bare)) linear->combine = Combine::none;
    if (auto* conv = std::get_if<Conv2d>(&bare)) conv->residual = false;
    in.push_back(push(Input{}, result(bare, base), "extra"));
  }
  for (Value v : in) types.push_back(a.graph[v].type);
  a.graph.nodes.push_back({op, in, result(op, types), "product"});
  verify(a.graph);
  a.fill(static_cast<uint32_t>(x.shape.count() + weight.shape.count()));
  return a;
}

inline double finished(double x, Activation activation, Combine combine, const Alone& a, size_t at) {
  const double y = activated(activation, x);
  if (combine == Combine::none) return y;
  return combine == Combine::add ? y + a.in.back()[at] : y * a.in.back()[at];
}

inline Values reference(const Linear& op, const Alone& a) {
  const Shape& w = a.type(1).shape;
  const auto rows = static_cast<size_t>(a.type(0).shape.rows());
  const auto outputs = static_cast<size_t>(w[0]), inputs = static_cast<size_t>(w[1]);
  Values out(rows * outputs);
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < outputs; ++o) {
      double sum = op.has_bias ? a.in[2][o] : 0;
      for (size_t i = 0; i < inputs; ++i) sum += a.in[0][r * inputs + i] * a.in[1][o * inputs + i];
      out[r * outputs + o] = finished(sum, op.activation, op.combine, a, r * outputs + o);
    }
  return out;
}

inline double window_sum(const Conv2d& op, const Alone& a, int64_t n, int64_t y, int64_t x, int64_t o) {
  const Shape &from = a.type(0).shape, &w = a.type(1).shape;
  const int64_t scale = op.upsample ? 2 : 1;
  double sum = 0;
  for (int64_t ky = 0; ky < w[2]; ++ky)
    for (int64_t kx = 0; kx < w[3]; ++kx) {
      const int64_t sy = y * op.stride - op.pad + ky, sx = x * op.stride - op.pad + kx;
      if (sy < 0 || sx < 0 || sy >= from[1] * scale || sx >= from[2] * scale) continue;
      for (int64_t i = 0; i < w[1]; ++i)
        sum += a.in[0][static_cast<size_t>(((n * from[1] + sy / scale) * from[2] + sx / scale) * w[1] + i)] *
               a.in[1][static_cast<size_t>(((o * w[1] + i) * w[2] + ky) * w[3] + kx)];
    }
  return sum;
}

inline Values reference(const Conv2d& op, const Alone& a) {
  const Shape& to = a.node().type.shape;
  Values out(static_cast<size_t>(to.count()));
  size_t at = 0;
  for (int64_t n = 0; n < to[0]; ++n)
    for (int64_t y = 0; y < to[1]; ++y)
      for (int64_t x = 0; x < to[2]; ++x)
        for (int64_t o = 0; o < to[3]; ++o, ++at) {
          const double bias = op.has_bias ? a.in[2][static_cast<size_t>(o)] : 0;
          out[at] = finished(window_sum(op, a, n, y, x, o) + bias, op.activation,
                             op.residual ? Combine::add : Combine::none, a, at);
        }
  return out;
}

// Partial sums grow with the root of the depth, and so does the number of their roundings in one direction.
inline Tolerance product_tolerance(int64_t depth) { return {6e-8 * static_cast<double>(depth) + 1e-6, 2e-6}; }

// What a kernel answers twice in a row, with the first answer's memory.
inline void expect_repeatable(const Alone& a, const Ways& ways) {
  const std::unique_ptr<Kernel> kernel = make_kernel(a.graph, a.node(), ways);
  const NodeFacts facts = kernel->facts();
  std::vector<Guarded> memory;
  std::vector<Tensor> in;
  for (size_t i = 0; i < a.in.size(); ++i) {
    memory.push_back(guarded(a.type(i), a.in[i]));
    if (facts.packed[i].value != 0) {
      Guarded packed(facts.packed[i]);
      kernel->pack(i, memory.back().span(), packed.span());
      memory.back() = std::move(packed);
    }
    in.push_back({memory.back().data(), a.type(i)});
  }
  Guarded scratch(facts.scratch), first(size_of(a.node().type)), second(size_of(a.node().type));
  kernel->run({in, {first.data(), a.node().type}, scratch.data(), {}});
  kernel->run({in, {second.data(), a.node().type}, scratch.data(), {}});
  EXPECT_TRUE(std::ranges::equal(first.span(), second.span()));
}

// By tiles, and by primitives where these take the types on any processor.
template <class Product>
void expect_product(const Product& op, const Alone& a) {
  const Values want = reference(op, a);
  const Shape& w = a.type(1).shape;
  const Tolerance tolerance = product_tolerance(w.count() / w[0]);
  {
    SCOPED_TRACE("tiles");
    expect_kernel(a, want, tolerance);
  }
  SCOPED_TRACE("primitives");
  Ways ways{.primitives = true};
  if (a.type(0).dtype == DType::f32 && a.type(1).dtype == DType::f32) {
    for (ways.threads = 1; ways.threads <= 3; ways.threads += 2)
      expect_close(run_alone(a, ways), want, DType::f32, tolerance);
  }
}

}  // namespace danqing::cpu
