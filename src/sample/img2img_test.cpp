// Where an image enters a run: three conventions, and the limits of strength.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "sample/golden_test.h"
#include "sample/sampler.h"
#include "sample/scheduler_config.h"

namespace danqing {
namespace {

using Json = nlohmann::json;

TEST(ImageToImage, EveryReferenceCase) {
  READ_GOLDEN(golden, "sampler/img2img");
  const auto image = golden.floats("image"), noise = golden.floats("noise");
  for (const Json& row : golden.about["cases"]) {
    const std::string name = row["case"];
    SCOPED_TRACE(name);
    SamplerConfig c;
    if (row.contains("class")) {
      Json config = row["config"];
      config["_class_name"] = row["class"].get<std::string>().substr(std::string("diffusers.").size());
      c = scheduler_config(config, name);
    } else {
      c.sampler = sampler_named("euler").sampler;
      c.schedule = schedule_named(row["schedule"].get<std::string>());
      c.convention = row["convention"] == "a1111" ? Convention::kdiffusion : Convention::comfyui;
    }
    c.steps = row["steps"];
    c.strength = row["strength"].get<double>();
    const SamplerRun run(c);
    std::vector<float> x(image.size());
    run.start(image, noise, x);
    if (!golden.tensors.contains(name + "/x")) {
      EXPECT_EQ(run.evaluations(), 0);
      EXPECT_EQ(x, image);
      continue;
    }
    const auto& expected = golden.tensors.at(name + "/x");
    double most = 0;
    for (double v : expected) most = std::max(most, std::abs(v));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], expected[i], 1e-5 * most);
    if (row.contains("class")) {
      const auto& times = golden.tensors.at(name + "/timesteps");
      ASSERT_EQ(run.evaluations(), row["kept"].get<int>());
      for (size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(run.timesteps()[i], times[i], 1e-3);
    } else {
      const auto& sigmas = golden.tensors.at(name + "/sigmas");
      ASSERT_EQ(run.steps() + 1, static_cast<int>(sigmas.size()));
      for (size_t i = 0; i < sigmas.size(); ++i)
        EXPECT_NEAR(run.sigma(static_cast<int>(i)), sigmas[i], 2e-5 * sigmas[i]);
    }
  }
}

}  // namespace
}  // namespace danqing
