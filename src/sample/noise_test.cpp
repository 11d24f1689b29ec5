#include "sample/noise.h"

#include <gtest/gtest.h>

#include "sample/golden_test.h"

namespace danqing {
namespace {

double worst_difference(std::span<const float> a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// NAME/SEED/SHAPE/DRAW: successive draws of one generator.
template <class Generator>
int compare_draws(const Golden& golden, const std::string& kind, double tolerance) {
  int compared = 0;
  for (uint64_t seed : golden.about["run"].contains("seeds")
                           ? golden.about["run"]["seeds"].get<std::vector<uint64_t>>()
                           : std::vector<uint64_t>{0, 1, 42, 4294967295, 1234567890123}) {
    std::map<std::string, int> shapes;
    const std::string prefix = kind + "/" + std::to_string(seed) + "/";
    for (const auto& [name, values] : golden.tensors)
      if (name.starts_with(prefix)) ++shapes[name.substr(0, name.rfind('/'))];
    for (const auto& [shape, draws] : shapes) {
      Generator generator(seed);
      for (int d = 0; d < draws; ++d, ++compared) {
        const auto& expected = golden.tensors.at(shape + "/" + std::to_string(d));
        std::vector<float> out(expected.size());
        generator.draw(out);
        EXPECT_LE(worst_difference(out, expected), tolerance) << shape << " draw " << d;
      }
    }
  }
  return compared;
}

TEST(Noise, TorchDrawsEqualTheReference) {
  READ_GOLDEN(golden, "rng/torch_cpu");
  EXPECT_EQ(compare_draws<TorchNoise>(golden, "randn", 2e-6), 70);
}

TEST(Noise, TorchWordsAndUniformsAreExact) {
  READ_GOLDEN(golden, "rng/torch_cpu");
  for (uint64_t seed : golden.about["run"]["seeds"].get<std::vector<uint64_t>>()) {
    TorchNoise words(seed), uniforms(seed);
    for (double expected : golden.tensors.at("mt19937/" + std::to_string(seed))) ASSERT_EQ(words.word(), expected);
    for (double expected : golden.tensors.at("rand/" + std::to_string(seed) + "/20"))
      ASSERT_EQ(uniforms.uniform(), static_cast<float>(expected));
  }
}

TEST(Noise, TorchKeepsTheSpareValueOfAShortDraw) {
  READ_GOLDEN(golden, "rng/torch_cpu");
  for (uint64_t seed : golden.about["run"]["seeds"].get<std::vector<uint64_t>>()) {
    TorchNoise generator(seed);
    for (const char* part : {"3", "then5", "then20"}) {
      const auto& expected = golden.tensors.at("mixed/" + std::to_string(seed) + "/" + part);
      std::vector<float> out(expected.size());
      generator.draw(out);
      EXPECT_LE(worst_difference(out, expected), 2e-6) << seed << " " << part;
    }
  }
}

TEST(Noise, PhiloxDrawsEqualTheReference) {
  READ_GOLDEN(golden, "rng/philox");
  EXPECT_EQ(compare_draws<PhiloxNoise>(golden, "philox", 1e-6), 30);
}

TEST(Noise, SeedWidth) {
  const auto first = [](NoiseKind kind, uint64_t seed) {
    std::vector<float> out(64);
    noise_generator(kind, seed)->draw(out);
    return out;
  };
  const uint64_t big = (uint64_t{7} << 32) + 5;
  EXPECT_EQ(first(NoiseKind::torch, big), first(NoiseKind::torch, 5));  // the low 32 bits count
  EXPECT_NE(first(NoiseKind::philox, big), first(NoiseKind::philox, 5));
  EXPECT_NE(first(NoiseKind::torch, 6), first(NoiseKind::torch, 5));
}

}  // namespace
}  // namespace danqing
