// The edges of what can be asked: every sampler with every schedule, one step, many steps, strengths, zero terminal
// SNR.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "sample/sampler.h"

namespace danqing {
namespace {

constexpr Convention kConventions[] = {Convention::kdiffusion, Convention::comfyui, Convention::diffusers};

// Runs on a network that knows the image (0.5 everywhere): all samplers must come close to it.
double run_and_check(const SamplerConfig& c) {
  const SamplerRun run(c);
  const std::string name = std::string(c.sampler->name) + " " + std::string(info(c.schedule).name) + " steps " +
                           std::to_string(c.steps) + " convention " + std::to_string(static_cast<int>(c.convention));
  std::vector<float> x(6);
  const std::vector<float> noise{1, -2, 0.5, 0.1, -0.7, 1.5};
  run.start(noise, x);
  int calls = 0, steps = 0;
  run.run(
      x,
      [&](std::span<const float> in, double t, std::span<float> out) {
        ASSERT_LT(calls, run.evaluations()) << name;
        EXPECT_EQ(t, run.timesteps()[calls++]) << name;
        EXPECT_TRUE(t >= 0 && t <= 1000) << name << " " << t;
        for (size_t i = 0; i < in.size(); ++i) {
          EXPECT_TRUE(std::isfinite(in[i])) << name;
          out[i] = 0.1f * in[i];
        }
      },
      [](std::span<float> out, double, double) { std::fill(out.begin(), out.end(), 0.25f); },
      [&](int i, int total, std::span<float>) {
        EXPECT_EQ(i, steps++) << name;
        EXPECT_EQ(total, run.steps()) << name;
      });
  EXPECT_EQ(calls, run.evaluations()) << name;
  EXPECT_EQ(steps, run.steps()) << name;
  double most = 0;
  for (float v : x) most = std::isfinite(v) ? std::max(most, std::abs(static_cast<double>(v))) : INFINITY;
  EXPECT_LT(most, 1e6) << name;
  return most;
}

TEST(Limits, EverySamplerAndScheduleStaysFiniteAndCallsAsPromised) {
  int runs = 0;
  for (const SamplerInfo& sampler : samplers())
    for (const ScheduleInfo& schedule : schedules())
      for (Convention convention : kConventions)
        for (Prediction prediction : {Prediction::epsilon, Prediction::v, Prediction::flow})
          for (int steps : {1, 2, 3, 15, 100}) {
            if (prediction == Prediction::flow && schedule.discrete_only) continue;
            run_and_check({.sampler = &sampler,
                           .schedule = schedule.schedule,
                           .steps = steps,
                           .convention = convention,
                           .training = {.prediction = prediction, .shift = 3}});
            ++runs;
          }
  EXPECT_GT(runs, 5000);
}

TEST(Limits, ManySteps) {
  for (const SamplerInfo& sampler : samplers())
    for (Convention convention : kConventions)
      for (Spacing spacing : {Spacing::leading, Spacing::trailing, Spacing::linspace})
        for (Schedule schedule : {Schedule::automatic, Schedule::karras, Schedule::beta})
          for (int steps : {1000})
            run_and_check({.sampler = &sampler,
                           .schedule = schedule,
                           .steps = steps,
                           .convention = convention,
                           .spacing = spacing});
}

TEST(Limits, ZeroTerminalSnr) {
  for (const SamplerInfo& sampler : samplers())
    for (Convention convention : kConventions)
      for (Spacing spacing : {Spacing::leading, Spacing::trailing})
        for (Schedule schedule : {Schedule::automatic, Schedule::karras})
          run_and_check({.sampler = &sampler,
                         .schedule = schedule,
                         .steps = 20,
                         .convention = convention,
                         .training = {.prediction = Prediction::v, .zero_terminal_snr = true},
                         .spacing = spacing});
}

TEST(Limits, CountOfStepsAndCalls) {
  for (int steps : {1, 2, 3, 50, 100, 999})
    for (const SamplerInfo& sampler : samplers())
      for (Convention convention : kConventions) {
        const SamplerRun run({.sampler = &sampler, .steps = steps, .convention = convention});
        const bool plms = sampler.grid == Grid::plms && convention == Convention::diffusers && steps > 1;
        EXPECT_EQ(run.steps(), steps + plms) << sampler.name;
        EXPECT_EQ(run.evaluations(), steps * sampler.evaluations - (sampler.evaluations - 1) + plms) << sampler.name;
      }
}

TEST(Limits, AbsurdRequestsAreRefused) {
  const auto refused = [](SamplerConfig c) {
    c.sampler = c.sampler ? c.sampler : sampler_named("euler").sampler;
    EXPECT_THROW(SamplerRun{c}, Error);
  };
  for (int steps : {0, -1, 1001, 10001, INT32_MAX, INT32_MIN}) refused({.steps = steps});
  for (double strength : {-0.1, 1.1, std::nan(""), double(INFINITY)}) refused({.strength = strength});
  refused({.sigmas = {1, 2, 0}});
  refused({.sigmas = {0, 0}});
  refused({.sigmas = {1}});
  refused({.sigmas = {1e6, 0}});
  refused({.sigmas = {NAN, 0}});
  refused({.timesteps = {1000}});
  refused({.timesteps = {500}, .sigmas = {1, 0}});
  refused({.options = {.eta = NAN}});
  refused({.steps_offset = INT32_MAX});
  refused({.training = {.prediction = Prediction::flow}, .dynamic_mu = NAN});
  refused({.training = {.prediction = Prediction::flow}, .dynamic_mu = -1, .dynamic_linear = true});
  refused({.options = {.order = 2}});  // Euler has order 1
  refused({.schedule = Schedule::ays_sd15, .training = {.prediction = Prediction::flow}});
}

TEST(Limits, Strengths) {
  const std::vector<float> image{1, 2, 3}, noise{-1, 0.5, 2};
  for (const char* name : {"euler", "ddim", "pndm", "dpmpp_2m", "heun", "euler_a"})
    for (Convention convention : kConventions)
      for (int steps : {1, 4, 20})
        for (double strength : {0.0, 0.001, 0.01, 0.049, 0.5, 0.999, 1.0}) {
          const SamplerRun run(
              {.sampler = sampler_named(name).sampler, .steps = steps, .convention = convention, .strength = strength});
          std::vector<float> x(3);
          run.start(image, noise, x);
          if (run.steps() == 0) {
            EXPECT_EQ(x, image) << "a run of no steps returns the image";
            EXPECT_LT(strength * steps, 1) << name;
          } else {
            EXPECT_NE(x, image);
          }
          EXPECT_TRUE(strength > 0 || run.evaluations() == 0) << name;
          run.run(
              x, [](auto in, double, auto out) { std::copy(in.begin(), in.end(), out.begin()); },
              [](auto out, double, double) { std::fill(out.begin(), out.end(), 0.1f); }, {});
          for (float v : x) EXPECT_TRUE(std::isfinite(v)) << name << " " << strength;
        }
}

TEST(Inpainting, TheKnownAreaMeetsTheNextStep) {
  const std::vector<float> image{1, 2, 3}, noise{-1, 0.5, 2};
  for (Convention convention : {Convention::kdiffusion, Convention::diffusers})  // ComfyUI starts with more noise
    for (Prediction prediction : {Prediction::epsilon, Prediction::flow})
      for (const char* name : {"ddim", "euler", "pndm", "dpmpp_2m", "unipc", "deis", "heun"}) {
        const SamplerRun run({.sampler = sampler_named(name).sampler,
                              .steps = 5,
                              .convention = convention,
                              .training = {.prediction = prediction},
                              .strength = 1});
        std::vector<float> x(3);
        // A network that knows image and noise keeps the latents on the path between them.
        run.start(image, noise, x);
        run.run(
            x,
            [&](auto, double, auto out) {
              for (size_t i = 0; i < out.size(); ++i)
                out[i] = prediction == Prediction::flow ? noise[i] - image[i] : noise[i];
            },
            {},
            [&](int i, int total, std::span<float> latents) {
              if (i + 1 == total) return;
              std::vector<float> expected(3);
              run.noised_original(i, image, noise, expected);
              for (size_t j = 0; j < 3; ++j) EXPECT_NEAR(latents[j], expected[j], 1e-4) << name << " step " << i;
            });
        std::vector<float> last(3);
        run.noised_original(run.steps() - 1, image, noise, last);
        EXPECT_EQ(last, image);
      }
}

TEST(Sampler, TheCallbackMayStopARunAndChangeLatents) {
  const SamplerRun run({.sampler = sampler_named("euler").sampler, .steps = 4});
  std::vector<float> x{1, 2};
  const Network zero = [](auto, double, auto out) { std::fill(out.begin(), out.end(), 0.0f); };
  EXPECT_THROW(run.run(x, zero, {},
                       [](int i, int, auto) {
                         if (i == 1) throw Error(Fault::cancelled, "stop");
                       }),
               Error);
  run.run(x, zero, {}, [](int, int, std::span<float> latents) { latents[0] = 42; });
  EXPECT_EQ(x[0], 42);
}

}  // namespace
}  // namespace danqing
