#include "run/cpu/product_testing.h"

namespace danqing::cpu {

namespace {

Alone linear(const Linear& op, Shape x, int64_t outputs, DType activations, DType weights) {
  const int64_t inputs = x.back();
  return product_alone(op, {activations, x}, {weights, {outputs, inputs}}, op.has_bias, op.combine != Combine::none);
}

void check(const Linear& op, Shape x, int64_t outputs, DType activations = DType::f32, DType weights = DType::f32) {
  expect_product(op, linear(op, x, outputs, activations, weights));
}

}  // namespace

TEST(Linear, AnySize) {
  for (const Shape& x : {Shape{1, 1}, Shape{1, 33}, Shape{2, 320}, Shape{1, 77, 40}, Shape{300, 7}, Shape{2, 150, 64}})
    for (int64_t outputs : {1, 5, 64, 130, 320}) check({.has_bias = true}, x, outputs);
}

TEST(Linear, DepthOfSeveralBlocks) {
  check({}, {3, 385}, 9);
  check({.has_bias = true, .combine = Combine::add}, {1, 77, 1501}, 150);
  check({.has_bias = true}, {600, 800}, 24);
}

TEST(Linear, ManyRowsAndColumns) { check({.has_bias = true, .combine = Combine::mul}, {2, 521, 24}, 40); }

TEST(Linear, EveryActivationAndCombination) {
  for (Activation activation : {Activation::none, Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                Activation::quick_gelu, Activation::tanh})
    for (Combine combine : {Combine::none, Combine::add, Combine::mul})
      for (bool has_bias : {false, true}) check({has_bias, activation, combine}, {1, 13, 24}, 37);
}

TEST(Linear, EveryDtype) {
  for (DType activations : {DType::f32, DType::bf16})
    for (DType weights : {DType::f32, DType::f16, DType::bf16})
      for (int64_t rows : {1, 77, 300})
        check({true, Activation::silu, Combine::add}, {rows, 403}, 131, activations, weights);
}

TEST(Linear, SameBytesAgain) {
  for (bool primitives : {false, true})
    expect_repeatable(linear({true, Activation::gelu}, {1, 77, 320}, 130, DType::f32, DType::f32),
                      {.primitives = primitives, .threads = 2});
}

TEST(Linear, WeightsNoKernelTakesAreABug) {
  const Alone a = linear({}, {1, 32}, 4, DType::f32, DType::f32);
  Graph graph = a.graph;
  graph.nodes[1].type.dtype = DType::q8_0;
  EXPECT_THROW(make_kernel(graph, graph.nodes.back(), {}), Bug);
}

TEST(Linear, Bf16Primitives) {
  if (!detect(1).bf16_products) GTEST_SKIP() << "this processor has no AVX512-BF16";
  for (DType weights : {DType::bf16, DType::f16})
    for (const Linear& op :
         {Linear{true, Activation::gelu, Combine::mul}, Linear{true, Activation::silu, Combine::add}}) {
      const Alone a = linear(op, {2, 77, 320}, 64, DType::bf16, weights);
      const Ways ways{.bf16_products = true, .primitives = true, .threads = 2};
      const double rounding = weights == DType::f16 ? 0x1p-8 * std::sqrt(320) : 0;
      expect_close(run_alone(a, ways), reference(op, a), DType::bf16, {1e-4 + rounding, 1e-4});
    }
}

}  // namespace danqing::cpu
