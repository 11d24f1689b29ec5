#include <cmath>

#include "run/cpu/kernel_testing.h"
#include "run/cpu/reference_testing.h"

namespace danqing::cpu {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16};

Values group_norm(const GroupNorm& op, const Alone& a) {
  const Shape& shape = a.type(0).shape;
  const int64_t images = shape[0], channels = shape.back(), rows = shape.rows() / images, width = channels / op.groups;
  Values x = a.in[0];
  const auto at = [&](int64_t n, int64_t r, int64_t c) -> double& {
    return x[static_cast<size_t>((n * rows + r) * channels + c)];
  };
  for (int64_t n = 0; n < images; ++n)
    for (int64_t g = 0; g < op.groups; ++g) {
      const auto each = [&](auto f) {
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = g * width; c < (g + 1) * width; ++c) f(at(n, r, c), static_cast<size_t>(c));
      };
      if (op.has_shift) {
        const int64_t k = n * a.type(3).shape[0] / images;
        each([&](double& v, size_t c) { v += a.in[3][static_cast<size_t>(k * channels) + c]; });
      }
      double mean = 0, variance = 0;
      const auto count = static_cast<double>(rows * width);
      each([&](double& v, size_t) { mean += v / count; });
      each([&](double& v, size_t) { variance += (v - mean) * (v - mean) / count; });
      each([&](double& v, size_t c) {
        v = (v - mean) / std::sqrt(variance + static_cast<double>(op.eps)) * a.in[1][c] + a.in[2][c];
        if (op.silu) v = activated(Activation::silu, v);
      });
    }
  return x;
}

// The builder writes no SiLU into a norm (fusion does): set it here.
void check_group_norm(GroupNorm op, const Shape& shape, int64_t shifts, double mean = 0) {
  op.has_shift = shifts > 0;
  for (DType type : kTypes) {
    Alone a = alone([&](Build b) {
      const Value x = b.input("x", {type, shape});
      std::optional<Value> shift;
      if (shifts > 0) shift = b.input("shift", {DType::f32, {shifts, shape.back()}});
      b.group_norm(x, "norm", op.groups, op.eps, shift);
    });
    std::get<GroupNorm>(a.graph.nodes.back().op).silu = op.silu;
    a.fill(3, 2);
    for (double& v : a.in[0]) v = rounded(type, v + mean);
    expect_kernel(a, group_norm(op, a), {4e-6, 4e-6});
  }
}

TEST(GroupNormTest, Sizes) {
  for (const Shape& shape : {Shape{1, 1, 1, 4}, Shape{2, 3, 5, 12}, Shape{1, 7, 9, 20}, Shape{3, 8, 8, 36}})
    for (int groups : {1, 2, 4})
      for (bool silu : {false, true}) check_group_norm({groups, 1e-5f, silu}, shape, 0);
}

TEST(GroupNormTest, ManyChunks) {
  check_group_norm({32, 1e-6f, true}, {2, 40, 41, 64}, 0);
  check_group_norm({32, 1e-5f, true}, {1, 17, 5, 2560}, 1);
  check_group_norm({1, 1e-5f, false}, {1, 70, 70, 3}, 0);
}

TEST(GroupNormTest, ShiftRowsServeSeveralImages) {
  for (int64_t shifts : {1, 2, 4}) check_group_norm({4, 1e-5f, true}, {4, 3, 3, 24}, shifts);
}

TEST(GroupNormTest, ALargeMeanCostsNoDigits) { check_group_norm({2, 1e-5f, false}, {1, 60, 60, 10}, 0, 1000); }

Values row_norm(const Alone& a, bool centred, double eps) {
  const auto width = static_cast<size_t>(a.type(0).shape.back());
  Values x = a.in[0];
  for (size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < width; ++i) mean += centred ? x[begin + i] / static_cast<double>(width) : 0;
    for (size_t i = 0; i < width; ++i) square += std::pow(x[begin + i] - mean, 2) / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) {
      double& v = x[begin + i];
      v = (v - mean) / std::sqrt(square + eps);
      if (a.in.size() > 1) v *= a.in[1][i];
      if (a.in.size() > 2) v += a.in[2][i];
    }
  }
  return x;
}

constexpr int64_t kWidths[] = {1, 2, 7, 8, 31, 33, 64, 77, 320, 1283};

TEST(RowNormTest, LayerNorm) {
  for (DType type : kTypes)
    for (int64_t width : kWidths)
      for (double mean : {0.0, 300.0}) {
        const bool few = width < 31;  // these may lie close together: the mean's rounding shows
        if (few && mean != 0) continue;
        Alone a = alone([&](Build b) { b.layer_norm(b.input("x", {type, {2, 19, width}}), "norm", 1e-5f); });
        a.fill(5, 3);
        for (double& v : a.in[0]) v = rounded(type, v + mean);
        expect_kernel(a, row_norm(a, true, static_cast<double>(1e-5f)), {few ? 4e-5 : 4e-6 + 1e-6 * mean, 4e-6});
      }
}

TEST(RowNormTest, LayerNormWithoutWeights) {
  for (DType type : kTypes) {
    Alone a = alone([&](Build b) { b.layer_norm(b.input("x", {type, {3, 45}}), "norm", 1e-6f); });
    Node& node = a.graph.nodes.back();
    std::get<LayerNorm>(node.op).affine = false;
    node.in.resize(1);
    a.fill(6);
    expect_kernel(a, row_norm(a, true, static_cast<double>(1e-6f)), {4e-6, 4e-6});
  }
}

TEST(RowNormTest, RmsNorm) {
  for (DType type : kTypes)
    for (int64_t width : kWidths) {
      Alone a = alone([&](Build b) { b.rms_norm(b.input("x", {type, {2, 19, width}}), "norm", 1e-6f); });
      a.fill(5, 3);
      expect_kernel(a, row_norm(a, false, static_cast<double>(1e-6f)), {4e-6, 4e-6});
    }
}

}  // namespace
}  // namespace danqing::cpu
