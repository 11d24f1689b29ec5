#include "run/cpu/simd.h"

#include "run/cpu/kernel_testing.h"
#include "run/cpu/reference_testing.h"

namespace danqing::cpu {
namespace {

TEST(SimdTest, WidensEveryHalf) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  on_every_target([&] {
    for (const DType type : {DType::f16, DType::bf16}) {
      std::vector<float> got(bits.size());
      to_f32(type, bits.data(), got.data(), static_cast<int64_t>(bits.size()));
      for (size_t i = 0; i < bits.size(); ++i) {
        const float want = type == DType::f16 ? f16_to_f32(bits[i]) : bf16_to_f32(bits[i]);
        ASSERT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want))) << name(type) << " " << i;
      }
    }
  });
}

TEST(SimdTest, NarrowsToNearestEven) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 65536; ++high)
    for (uint32_t low : {0u, 1u, 0x1000u, 0x3000u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const uint32_t bits = high << 16 | low;
      float value;
      std::memcpy(&value, &bits, 4);
      values.push_back(value);
    }
  on_every_target([&] {
    for (const DType type : {DType::f16, DType::bf16}) {
      std::vector<uint16_t> got(values.size());
      from_f32(type, values.data(), got.data(), static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t want = type == DType::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        const float back = type == DType::f16 ? f16_to_f32(got[i]) : bf16_to_f32(got[i]);
        ASSERT_TRUE(got[i] == want || (std::isnan(back) && std::isnan(values[i])))
            << name(type) << " of " << values[i] << ": " << got[i] << ", want " << want;
      }
    }
  });
}

TEST(SimdTest, ConvertsOnlyWhatItIsGiven) {
  on_every_target([&] {
    for (int64_t n : {0, 1, 3, 7, 8, 9, 15, 17, 33}) {
      Guarded from(Bytes(2 * n)), to(Bytes(4 * n)), back(Bytes(2 * n));
      for (int64_t i = 0; i < n; ++i) write_value(DType::bf16, static_cast<double>(i), from.data() + 2 * i);
      to_f32(DType::bf16, from.data(), reinterpret_cast<float*>(to.data()), n);
      from_f32(DType::bf16, reinterpret_cast<float*>(to.data()), back.data(), n);
      EXPECT_TRUE(to.untouched_outside() && back.untouched_outside());
      EXPECT_TRUE(std::ranges::equal(from.span(), back.span()));
    }
  });
}

constexpr Activation kActivations[] = {Activation::none,      Activation::silu,       Activation::gelu,
                                       Activation::gelu_tanh, Activation::quick_gelu, Activation::tanh};

TEST(SimdTest, EpilogueIsBiasActivationThenCombine) {
  constexpr int64_t rows = 3, n = 1043, stride = 1050, extra_stride = 1047;
  for (const DType type : {DType::f32, DType::bf16})
    for (Activation activation : kActivations)
      for (Combine combine : {Combine::none, Combine::add, Combine::mul})
        for (bool has_bias : {false, true}) {
          const TensorType c_type{DType::f32, {rows, stride}}, extra_type{type, {rows, extra_stride}};
          const Values c = random_values(c_type, 1, 6), bias = random_values({DType::f32, {n}}, 2),
                       extra = random_values(extra_type, 3);
          Values want(c);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < n; ++j) {
              double& v = want[static_cast<size_t>(r * stride + j)];
              v = activated(activation, v + (has_bias ? bias[static_cast<size_t>(j)] : 0));
              const double e = extra[static_cast<size_t>(r * extra_stride + j)];
              v = combine == Combine::add ? v + e : combine == Combine::mul ? v * e : v;
            }
          on_every_target([&] {
            Guarded held = guarded(c_type, c), b = guarded({DType::f32, {n}}, bias), x = guarded(extra_type, extra);
            Guarded out = guarded({type, {rows, stride}}, c);
            const float* some_bias = has_bias ? reinterpret_cast<const float*>(b.data()) : nullptr;
            epilogue({some_bias, activation, combine, type, combine == Combine::none ? nullptr : x.data(), extra_stride,
                      out.data(), stride},
                     reinterpret_cast<const float*>(held.data()), rows, n, stride);
            EXPECT_TRUE(out.untouched_outside());
            Values got(want.size());
            for (size_t i = 0; i < got.size(); ++i)
              got[i] = read_value(type, out.data() + static_cast<int64_t>(i) * bytes_of(type, 1));
            expect_close(got, want, type, {1e-6, 1e-6});
          });
        }
}

TEST(SimdTest, ActivationsAtTheEdges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0, -0.0f, 1e-30f, -1e-30f, 20, -20, 90, -90, 1e30f, -1e30f, kInfinity};
  on_every_target([&] {
    for (Activation activation : kActivations) {
      std::vector<float> y = x;
      const auto n = static_cast<int64_t>(y.size());
      epilogue(y.data(), 1, n, n, nullptr, activation, Combine::none, nullptr, 0);
      for (size_t i = 0; i + 1 < x.size(); ++i)
        EXPECT_NEAR(y[i], activated(activation, static_cast<double>(x[i])), 1e-6 + 1e-6 * std::abs(x[i]))
            << x[i] << " activation " << static_cast<int>(activation);
      std::fill(y.begin(), y.end(), std::nanf(""));
      epilogue(y.data(), 1, n, n, nullptr, activation, Combine::none, nullptr, 0);
      for (float v : y) EXPECT_TRUE(std::isnan(v)) << "a NaN vanished in activation " << static_cast<int>(activation);
    }
  });
}

}  // namespace
}  // namespace danqing::cpu
