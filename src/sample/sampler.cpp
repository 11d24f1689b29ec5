#include "sample/sampler.h"

#include "sample/solver.h"

namespace danqing {

SamplerRun::~SamplerRun() = default;
SamplerRun::SamplerRun(SamplerRun&&) noexcept = default;

SamplerRun::SamplerRun(const SamplerConfig& config) : plan_(std::make_unique<const RunPlan>(config)) {
  // A run over latents of no size visits what a real one will.
  run(
      {}, [&](auto, double t, auto) { timesteps_.push_back(t); }, [](auto...) {}, {});
}

int SamplerRun::steps() const { return static_cast<int>(plan_->legs.size()); }

bool SamplerRun::adds_noise() const {
  const auto& c = plan_->config;
  return c.sampler->stochastic && (c.options.eta.value_or(c.sampler->eta) > 0 || c.sampler->run == solve_lcm);
}

double SamplerRun::start_scale() const { return plan_->start_scale; }

double SamplerRun::sigma(int step) const {
  DANQING_CHECK(step >= 0 && step <= steps());
  if (plan_->legs.empty()) return 0;
  return step < steps() ? plan_->legs[step].from.s : plan_->legs.back().to.s;
}

size_t SamplerRun::work_floats(size_t latents) const { return Solver::kBuffers * latents; }

void SamplerRun::start(std::span<const float> noise, std::span<float> latents) const {
  DANQING_CHECK(noise.size() == latents.size());
  mix(latents, {{plan_->start_scale, noise}});
}

void SamplerRun::start(std::span<const float> image, std::span<const float> noise, std::span<float> latents) const {
  DANQING_CHECK(image.size() == latents.size() && noise.size() == latents.size());
  if (plan_->legs.empty()) return mix(latents, {{1, image}});
  const Level& first = plan_->legs.front().eval;
  const bool comfy = plan_->config.convention == Convention::comfyui;
  mix(latents, {{first.signal, image}, {comfy ? plan_->start_scale : first.sigma, noise}});
}

void SamplerRun::noised_original(int step, std::span<const float> image, std::span<const float> noise,
                                 std::span<float> out) const {
  DANQING_CHECK(step >= 0 && step < steps() && image.size() == out.size() && noise.size() == out.size());
  if (step + 1 == steps()) return mix(out, {{1, image}});
  const Level& next = plan_->legs[step + 1].eval;
  mix(out, {{next.signal, image}, {next.sigma, noise}});
}

void SamplerRun::run(std::span<float> latents, const Network& network, const NoiseSource& noise, const OnStep& on_step,
                     std::span<float> work) const {
  DANQING_CHECK(network && (noise || !adds_noise()));
  std::vector<float> own(work.empty() ? work_floats(latents.size()) : 0);
  Solver solver(*plan_, latents, network, noise, on_step, work.empty() ? std::span(own) : work);
  plan_->config.sampler->run(solver);
}

}  // namespace danqing
