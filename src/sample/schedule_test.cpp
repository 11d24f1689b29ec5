#include "sample/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "sample/golden_test.h"
#include "sample/names.h"
#include "sample/quantile.h"

namespace danqing {
namespace {

void expect_relative(const std::vector<double>& expected, std::span<const double> got, double tolerance,
                     const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i]) + 1e-12) << name << " value " << i;
}

Training flow_training(double shift) { return {.prediction = Prediction::flow, .shift = shift}; }

TEST(Levels, TablesEqualTheReference) {
  READ_GOLDEN(golden, "sampler/schedules");
  // A tenth of the distance between the tables: each must be its own.
  expect_relative(golden.tensors.at("table/comfy"), Levels({}, Convention::comfyui).sigmas(), 1e-7, "comfy");
  expect_relative(golden.tensors.at("table/a1111"), Levels({}, Convention::kdiffusion).sigmas(), 1e-6, "a1111");
  expect_relative(golden.tensors.at("table/diffusers"), Levels({}, Convention::diffusers).sigmas(), 1e-6, "diffusers");
  for (int shift : {1, 3})
    expect_relative(golden.tensors.at("table/flow_shift" + std::to_string(shift)),
                    Levels(flow_training(shift), Convention::comfyui).sigmas(), 1e-7, "flow");
}

TEST(Schedule, EverySchedule) {
  READ_GOLDEN(golden, "sampler/schedules");
  const Levels levels({}, Convention::comfyui);
  const double tolerance = golden.about["tolerance"]["relative"];
  int compared = 0;
  for (const auto& [key, expected] : golden.tensors) {
    if (key.starts_with("table/")) continue;
    const size_t a = key.find('/'), b = key.rfind('/');
    std::string name = key.substr(a + 1, b - a - 1);
    const int steps = std::stoi(key.substr(b + 1));
    const Convention convention =
        name.find("comfy") != std::string::npos ? Convention::comfyui : Convention::kdiffusion;
    for (const char* part : {"_comfy", "_a1111", "_kdiffusion_f32"})
      if (const size_t at = name.find(part); at != std::string::npos) name.erase(at, std::strlen(part));
    const Levels flow(flow_training(key.find("shift3") != std::string::npos ? 3 : 1), Convention::comfyui);
    expect_relative(expected,
                    sigma_schedule(schedule_named(name), key.starts_with("flow") ? flow : levels, steps, convention),
                    tolerance, key);
    ++compared;
  }
  EXPECT_EQ(compared, 15 * 5 + 2 * 6 * 5);
}

TEST(Schedule, TimestepsOfSigmas) {
  READ_GOLDEN(golden, "sampler/schedules");
  const Levels levels({}, Convention::comfyui);
  ASSERT_GT(golden.about["timesteps"].size(), 50u);
  for (const auto& row : golden.about["timesteps"]) {
    const auto& sigmas = golden.tensors.at(row["name"]);
    for (size_t i = 0; i < row["t_nearest"].size(); ++i) {
      EXPECT_NEAR(levels.time(sigmas[i]), row["t_interpolated"][i].get<double>(), 2e-4) << row["name"] << i;
      const double t = row["t_interpolated"][i];
      const bool tie = std::abs(t - std::floor(t) - 0.5) < 1e-3;  // the stored sigma is rounded: either side
      EXPECT_NEAR(levels.nearest(sigmas[i]), row["t_nearest"][i].get<double>(), tie) << row["name"] << i;
      EXPECT_NEAR(levels.sigma(levels.time(sigmas[i])), std::clamp(sigmas[i], levels.min(), levels.max()),
                  1e-6 * sigmas[i]);
    }
  }
}

TEST(Levels, ZeroTerminalSnrIsFinite) {
  const Levels levels({.zero_terminal_snr = true}, Convention::comfyui);
  EXPECT_NEAR(levels.max(), 4096, 0.01);
  EXPECT_NEAR(levels.sigmas()[998], 2254.24, 0.01);  // independent figure
  EXPECT_NEAR(levels.min(), Levels({}, Convention::comfyui).min(), 1e-9);
}

TEST(Levels, ImpossibleNumbersAreRefused) {
  EXPECT_THROW(Levels({.count = 1}, Convention::comfyui), Error);
  EXPECT_THROW(Levels({.beta_start = 0}, Convention::comfyui), Error);
  EXPECT_THROW(Levels({.beta_start = 0.5, .beta_end = 0.9}, Convention::comfyui), Error);        // sigma overflows
  EXPECT_THROW(Levels({.beta_start = 1e-30, .beta_end = 1e-29}, Convention::diffusers), Error);  // sigma is 0
  EXPECT_THROW(Levels({.beta_end = NAN}, Convention::comfyui), Error);
  EXPECT_THROW(Levels(flow_training(0), Convention::comfyui), Error);
  EXPECT_THROW(Levels(flow_training(INFINITY), Convention::comfyui), Error);
}

TEST(Quantile, ClosedForms) {
  EXPECT_NEAR(beta_quantile(0.3, 1, 1), 0.3, 1e-14);
  EXPECT_NEAR(beta_quantile(0.3, 2, 1), std::sqrt(0.3), 1e-14);
  EXPECT_NEAR(beta_quantile(0.01, 0.5, 0.5), std::pow(std::sin(M_PI * 0.01 / 2), 2), 1e-14);
  EXPECT_EQ(beta_quantile(0, 0.6, 0.6), 0);
  EXPECT_EQ(beta_quantile(1, 0.6, 0.6), 1);
}

}  // namespace
}  // namespace danqing
