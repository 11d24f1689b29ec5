#include <cmath>

#include "run/cpu/kernel_testing.h"

namespace danqing::cpu {
namespace {

Alone lookup(DType table, const Shape& ids, int64_t rows, int64_t width) {
  Precision precision;
  precision.weights = table;
  return alone(
      [&](Build b) {
        b.embedding(b.input("ids", {DType::i32, ids}), b.matrix("table", {rows, width}));
      },
      precision);
}

TEST(EmbeddingTest, PicksRowsOfAnyType) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t width : {1, 7, 32, 40}) {
      Alone a = lookup(type, {2, 5}, 11, width);
      a.fill(1);
      a.in[0] = {0, 10, 3, 3, 9, 1, 2, 8, 0, 10};
      Values want;
      for (double id : a.in[0])
        for (int64_t c = 0; c < width; ++c) want.push_back(a.in[1][static_cast<size_t>(id) * width + c]);
      expect_kernel(a, want, {0, 0});
    }
}

TEST(EmbeddingTest, RefusesIdsOutsideTheTable) {
  for (double id : {-1.0, 11.0, 49407.0}) {
    Alone a = lookup(DType::f32, {1, 2}, 11, 4);
    a.fill(1);
    a.in[0] = {0, id};
    EXPECT_THROW(run_alone(a, {}), Error);
  }
}

Alone sinusoid(const Values& times, int64_t dim, bool flip) {
  Alone a = alone([&](Build b) {
    b.sinusoid(b.input("t", {DType::f32, {static_cast<int64_t>(times.size())}}), dim, flip);
  });
  a.in = {times};
  return a;
}

// Frequencies as f32 holds them after each step; the angle rounds once more.
TEST(SinusoidTest, CosinesFirstIfFlipped) {
  const Values times{0, 1, 17.5, 999};
  for (bool flip : {true, false})
    for (int64_t dim : {2, 6, 32, 320}) {
      const int64_t half = dim / 2;
      Values want;
      for (double t : times)
        for (int64_t i = 0; i < dim; ++i) {
          const auto ratio = static_cast<float>(-std::log(10000.0)) * static_cast<float>(i % half);
          const auto frequency = static_cast<float>(std::exp(static_cast<double>(ratio / static_cast<float>(half))));
          const auto angle = static_cast<double>(static_cast<float>(t) * frequency);
          want.push_back((i < half) == flip ? std::cos(angle) : std::sin(angle));
        }
      expect_kernel(sinusoid(times, dim, flip), want, {1e-6, 0});
    }
}

// diffusers' get_timestep_embedding at t = 999, dim 320, torch on the CPU: {index, value}.
TEST(SinusoidTest, AgreesWithTorch) {
  const Values got = run_alone(sinusoid({999}, 320, true), {});
  const std::pair<size_t, double> known[] = {
      {0, 0.999649823},    {1, 0.802677512},    {5, 0.125231117},     {20, -0.180473521}, {50, 0.932046115},
      {100, -0.999846518}, {159, 0.994406343},  {160, -0.0264607519}, {161, 0.596413314}, {170, 0.536338866},
      {200, -0.589929104}, {250, -0.617371082}, {319, 0.105622061}};
  for (const auto& [i, value] : known) EXPECT_NEAR(got[i], value, 1e-6) << "at " << i;
}

}  // namespace
}  // namespace danqing::cpu
