#include "sample/noise_source.h"

#include <gtest/gtest.h>

#include <cmath>

namespace danqing {
namespace {

constexpr size_t kCount = 4096;

std::vector<float> increment(uint64_t seed, double from, double to) {  // not scaled: W(from) - W(to)
  BrownianNoise noise(seed, kCount);
  std::vector<float> out(kCount);
  noise.draw(out, from, to);
  for (float& v : out) v *= static_cast<float>(std::sqrt(from - to));
  return out;
}

TEST(BrownianNoise, IncrementsOverAnIntervalSumToTheSame) {
  for (uint64_t seed : {0, 7}) {
    const auto whole = increment(seed, 14.6146, 0.0292);
    std::vector<float> sum(kCount);
    for (int i = 0; i < 8; ++i) {
      const double from = 14.6146 + (0.0292 - 14.6146) * i / 8, to = 14.6146 + (0.0292 - 14.6146) * (i + 1) / 8;
      const auto part = increment(seed, from, to);
      for (size_t j = 0; j < kCount; ++j) sum[j] += part[j];
    }
    for (size_t j = 0; j < kCount; ++j) ASSERT_NEAR(sum[j], whole[j], 1e-3);
  }
  EXPECT_NE(increment(0, 2, 1), increment(7, 2, 1));
}

TEST(BrownianNoise, IsNormalAndIndependentBetweenSteps) {
  const double edges[] = {4096, 14.6, 9.1, 0.5, 0.03, 0.029, 0};
  std::vector<std::vector<float>> draws;
  for (int i = 0; i < 6; ++i) {
    BrownianNoise noise(3, kCount);
    draws.emplace_back(kCount);
    noise.draw(draws.back(), edges[i], edges[i + 1]);
  }
  for (size_t a = 0; a < draws.size(); ++a)
    for (size_t b = 0; b <= a; ++b) {
      double mean = 0, product = 0;
      for (size_t i = 0; i < kCount; ++i) mean += draws[a][i] / kCount, product += draws[a][i] * draws[b][i] / kCount;
      EXPECT_NEAR(mean, 0, 5 / std::sqrt(kCount)) << a;
      EXPECT_NEAR(product, a == b, 5 * std::sqrt((a == b ? 2.0 : 1.0) / kCount)) << a << " " << b;
    }
}

TEST(NoiseSources, AnImageDoesNotDependOnItsBatch) {
  const uint64_t both[] = {5, 9}, one[] = {9};
  std::vector<float> batch(2 * kCount), alone(kCount);
  brownian_noise(both, kCount)(batch, 3, 2);
  brownian_noise(one, kCount)(alone, 3, 2);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + kCount));
  const auto stream = [](uint64_t seed) { return std::make_shared<TorchNoise>(seed); };
  const auto two = stream_noise({stream(5), stream(9)}), single = stream_noise({stream(9)});
  for (int draw = 0; draw < 2; ++draw) {  // the second draw continues the stream
    two(batch, 3, 2), single(alone, 3, 2);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + kCount));
  }
}

}  // namespace
}  // namespace danqing
