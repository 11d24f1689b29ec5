#include "run/cpu/kernel_testing.h"
#include "run/cpu/reference_testing.h"

namespace danqing::cpu {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16};

// a op b, b a trailing part of a.
void check_pair(const Shape& whole, const Shape& part, DType type, DType part_type, bool product) {
  Alone a = alone([&](Build b) {
    const Value x = b.input("x", {type, whole}), y = b.input("y", {part_type, part});
    product ? b.mul(x, y) : b.add(x, y);
  });
  a.fill(1);
  Values want = a.in[0];
  for (size_t i = 0; i < want.size(); ++i) {
    const double y = a.in[1][i % a.in[1].size()];
    want[i] = product ? want[i] * y : want[i] + y;
  }
  expect_kernel(a, want);
}

TEST(ElementwiseTest, AddAndMulRepeatTheTrailingPart) {
  for (DType type : kTypes)
    for (DType part_type : kTypes)
      for (bool product : {false, true}) {
        check_pair({2, 3, 7}, {2, 3, 7}, type, part_type, product);
        check_pair({2, 3, 7}, {7}, type, part_type, product);
        check_pair({5, 3, 1}, {1}, type, part_type, product);
        check_pair({3, 77, 97}, {77, 97}, type, part_type, product);
        check_pair({40, 1000}, {1000}, type, part_type, product);
      }
}

TEST(ElementwiseTest, AddTakesWeights) {
  Alone a = alone([](Build b) { b.add(b.input("x", {DType::f32, {2, 5, 9}}), b.table("position", {5, 9})); });
  a.fill(2);
  Values want = a.in[0];
  for (size_t i = 0; i < want.size(); ++i) want[i] += a.in[1][i % 45];
  expect_kernel(a, want);
}

TEST(ElementwiseTest, ModulateTakesTheImagesRow) {
  for (DType type : kTypes)
    for (DType factor_type : kTypes)
      for (bool residual : {false, true})
        for (const auto& [images, rows, tokens, width] :
             {std::array<int64_t, 4>{1, 1, 1, 1}, {4, 2, 5, 7}, {2, 2, 3, 33}, {3, 1, 40, 1000}}) {
          const Shape shape{images, tokens, width};
          Alone a = alone([&, rows = rows, width = width](Build b) {
            const Value x = b.input("x", {type, shape}), m = b.input("m", {factor_type, {rows, width}});
            residual ? b.modulate_add(x, m, b.input("r", {type, shape})) : b.modulate(x, m);
          });
          a.fill(7);
          Values want = a.in[0];
          for (size_t i = 0; i < want.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i), n = at / (tokens * width);
            want[i] *= a.in[1][static_cast<size_t>(n * rows / images * width + at % width)];
            if (residual) want[i] += a.in[2][i];
          }
          expect_kernel(a, want);
        }
}

TEST(ElementwiseTest, Unary) {
  for (DType type : kTypes)
    for (Activation kind : {Activation::none, Activation::silu, Activation::gelu, Activation::gelu_tanh,
                            Activation::quick_gelu, Activation::tanh})
      for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{3, 11001}}) {
        Alone a = alone([&](Build b) { b.unary(b.input("x", {type, shape}), kind); });
        a.fill(3, 9);
        Values want = a.in[0];
        for (double& v : want) v = activated(kind, v);
        expect_kernel(a, want);
      }
}

TEST(ElementwiseTest, Scale) {
  for (DType type : kTypes) {
    Alone a = alone([&](Build b) { b.scale(b.input("x", {type, {3, 11}}), 0.5f, -2.0f); });
    a.fill(4);
    Values want = a.in[0];
    for (double& v : want) v = v * 0.5 - 2;
    expect_kernel(a, want);
  }
}

TEST(ElementwiseTest, Cast) {
  for (DType from : {DType::f32, DType::f16, DType::bf16})
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      if (from == to) continue;
      for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{7, 2500}}) {
        Alone a = alone([&](Build b) { b.cast(b.input("x", {from, shape}), to); });
        a.fill(5);
        Values want = a.in[0];
        for (double& v : want) v = rounded(to, v);
        expect_kernel(a, want, {0, 0});
      }
    }
}

}  // namespace
}  // namespace danqing::cpu
