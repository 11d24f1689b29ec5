#include "run/cpu/product_testing.h"

namespace danqing::cpu {

namespace {

Alone conv(const Conv2d& op, Shape x, int64_t outputs, int64_t size, DType activations, DType weights) {
  const int64_t inputs = x.back();
  return product_alone(op, {activations, x}, {weights, {outputs, inputs, size, size}}, op.has_bias, op.residual);
}

void check(const Conv2d& op, Shape x, int64_t outputs, int64_t size, DType activations = DType::f32,
           DType weights = DType::f32) {
  expect_product(op, conv(op, x, outputs, size, activations, weights));
}

const Conv2d kSame{.pad = 1, .pad_end = 1, .has_bias = true};
const Conv2d kDoubled{.pad = 1, .pad_end = 1, .has_bias = true, .upsample = true};

}  // namespace

TEST(Conv2d, AnySize) {
  for (const Shape& x :
       {Shape{1, 1, 1, 1}, Shape{1, 3, 5, 4}, Shape{2, 8, 8, 16}, Shape{1, 17, 9, 7}, Shape{2, 5, 1, 20}})
    for (int64_t outputs : {1, 3, 8, 70}) {
      check(kSame, x, outputs, 3);
      check({.has_bias = true}, x, outputs, 1);
    }
}

TEST(Conv2d, ManyPixelsAndChannels) {
  check(kSame, {1, 23, 31, 12}, 40, 3);
  check(kSame, {2, 6, 7, 130}, 136, 3);
  check({.has_bias = true, .residual = true}, {1, 20, 30, 400}, 20, 1);
}

TEST(Conv2d, Strides) {
  for (const Shape& x : {Shape{2, 8, 8, 12}, Shape{1, 7, 9, 5}, Shape{1, 2, 2, 3}}) {
    check({2, 1, 1, true}, x, 10, 3);
    check({2, 0, 1, true}, x, 10, 3);  // the VAE's: padding only below and to the right
    check({2, 0, 0, true}, x, 10, 1);
  }
  check({2, 0, 0}, {1, 8, 6, 16}, 24, 2);  // patches
  check({1, 3, 3, true}, {1, 5, 6, 4}, 6, 7);
}

TEST(Conv2d, Doubled) {
  for (const Shape& x : {Shape{1, 1, 1, 3}, Shape{1, 3, 5, 4}, Shape{2, 8, 6, 24}, Shape{2, 13, 17, 5}})
    for (int64_t outputs : {1, 7, 72}) check(kDoubled, x, outputs, 3);
  check(kDoubled, {1, 4, 3, 300}, 16, 3);
}

TEST(Conv2d, DoubledInOddWays) {
  check({1, 0, 0, true, false, true}, {1, 3, 4, 5}, 6, 1);
  check({2, 1, 1, true, true, true}, {1, 3, 4, 5}, 6, 3);
  check({1, 0, 1, false, false, true}, {1, 3, 4, 5}, 6, 3);
}

TEST(Conv2d, EveryActivationWithAndWithoutResidual) {
  for (Activation activation : {Activation::none, Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                Activation::quick_gelu, Activation::tanh})
    for (bool residual : {false, true})
      for (bool has_bias : {false, true})
        for (bool upsample : {false, true})
          check({1, 1, 1, has_bias, residual, upsample, activation}, {1, 4, 5, 6}, 9, 3);
}

TEST(Conv2d, SameBytesAgain) {
  for (bool primitives : {false, true})
    for (const Conv2d& op : {kSame, kDoubled})
      expect_repeatable(conv(op, {2, 9, 8, 40}, 24, 3, DType::f32, DType::f32),
                        {.primitives = primitives, .threads = 2});
}

TEST(Conv2d, EveryDtype) {
  for (DType activations : {DType::f32, DType::bf16})
    for (DType weights : {DType::f32, DType::f16, DType::bf16}) {
      check({1, 1, 1, true, true, false, Activation::silu}, {2, 9, 11, 50}, 67, 3, activations, weights);
      check({1, 1, 1, true, true, true}, {2, 5, 7, 30}, 67, 3, activations, weights);
      check({.has_bias = true}, {2, 9, 11, 50}, 67, 1, activations, weights);
    }
}

TEST(Conv2d, Bf16Primitives) {
  if (!detect(1).bf16_products) GTEST_SKIP() << "this processor has no AVX512-BF16";
  for (const Conv2d& op : {Conv2d{1, 1, 1, true, true}, Conv2d{2, 0, 1, true}, kDoubled}) {
    const Alone a = conv(op, {2, 12, 10, 64}, 96, 3, DType::bf16, DType::bf16);
    const Ways ways{.bf16_products = true, .primitives = true, .threads = 2};
    const double rounding = op.upsample ? 0x1p-8 * std::sqrt(576) : 0;  // sums of weights are rounded too
    expect_close(run_alone(a, ways), reference(op, a), DType::bf16, {1e-4 + rounding, 1e-4});
  }
}

TEST(Detect, ThreadsAndWaysOfThisProcessor) {
  EXPECT_EQ(detect(3).threads, 3);
  EXPECT_GE(detect(0).threads, 1);
  EXPECT_TRUE(detect(1).primitives || !detect(1).bf16_products);
}

}  // namespace danqing::cpu
