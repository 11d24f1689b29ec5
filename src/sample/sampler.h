// A sampling run: from noise (or a noised image) to latents, by asking the network at a fixed list of timesteps.
// Everything about the run is known before it starts: the timesteps in order, the number of evaluations, the start.
// Latents are one flat span (one image or several); no call here knows their shape.
//
//   SamplerRun run({.sampler = sampler_named("DPM++ 2M Karras").sampler, .schedule = Schedule::karras, .steps = 20});
//   for (double t : run.timesteps()) ...            // time embeddings, price
//   run.start(noise, latents);                      // or run.start(image, noise, latents)
//   run.run(latents, network, noise_source, on_step);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sample/levels.h"
#include "sample/names.h"
#include "sample/schedule.h"

namespace danqing {

enum class Spacing { leading, trailing, linspace };  // diffusers' timestep_spacing

struct SolverOptions {
  std::optional<double> eta;      // share of fresh noise; default: the sampler's
  double s_noise = 1;             // factor on fresh noise
  std::optional<int> order;       // multistep solvers: 1 to 3; default: the sampler's
  std::optional<bool> heun;       // DPM++: form of the second-order term
  bool bh1 = false;               // UniPC: B(h) = h instead of exp(h) - 1
  bool euler_at_final = false;    // diffusers' DPM++
  bool lower_order_final = true;  // diffusers' multistep solvers: drop the order at the end of a run under 15 steps
};

struct SamplerConfig {
  const SamplerInfo* sampler = nullptr;
  Schedule schedule = Schedule::automatic;
  int steps = 20;  // 1 to kMaxSteps
  Convention convention = Convention::diffusers;
  Training training;
  SolverOptions options;

  // diffusers only: the scheduler's configuration.
  Spacing spacing = Spacing::leading;
  int steps_offset = 1;
  bool final_alpha_one = false;      // set_alpha_to_one (DDIM, PNDM): end at zero noise, not at level 0
  std::optional<bool> end_at_min;    // final_sigmas_type "sigma_min"; default: DEIS only
  bool lu_lambdas = false;           // use_lu_lambdas: exponential sigmas over all levels
  bool linspace_sigmas = false;      // flow: sigmas 1, ..., 1/n before the shift, as Z-Image's and Flux' pipelines pass
  std::optional<double> dynamic_mu;  // flow: resolution-dependent shift; replaces training.shift
  bool dynamic_linear = false;       // time_shift_type "linear" instead of "exponential"
  std::vector<double> timesteps, sigmas;  // given ones (at most one of the two); they replace spacing and steps

  // img2img: the share of the run that is kept, 0 to 1. 0 runs nothing and returns the image.
  // diffusers keeps the last int(n * strength) steps, A1111 int(min(strength, 0.999) * n) + 1, ComfyUI makes
  // int(n / strength) steps and keeps the last n.
  std::optional<double> strength;
};

// The network with guidance already applied: raw output (noise, v or flow velocity) for a scaled input.
// `timestep` is 0 to 999 for discrete models and 1000 sigma for flow.
using Network = std::function<void(std::span<const float> input, double timestep, std::span<float> output)>;
// Fills `out` with normal noise for the move from sigma `from` down to `to`.
using NoiseSource = std::function<void(std::span<float> out, double from, double to)>;
// After each step; may change the latents (inpainting) and may throw to stop.
using OnStep = std::function<void(int step, int total, std::span<float> latents)>;

struct RunPlan;

class SamplerRun {
 public:
  explicit SamplerRun(const SamplerConfig&);  // Error(request) when the configuration cannot be run
  ~SamplerRun();
  SamplerRun(SamplerRun&&) noexcept;

  int steps() const;  // calls of on_step; may differ from the count asked for (strength, beta, ddim_uniform, PNDM)
  std::span<const double> timesteps() const { return timesteps_; }  // of every evaluation, in order
  int evaluations() const { return static_cast<int>(timesteps_.size()); }
  bool adds_noise() const;       // whether run() asks the noise source
  double start_scale() const;    // text to image: latents = start_scale * noise
  double sigma(int step) const;  // schedule sigma at which step `step` starts; sigma(steps()) = where the run ends
  size_t work_floats(size_t latents) const;  // floats that run() allocates once, before its loop, for so many latents

  void start(std::span<const float> noise, std::span<float> latents) const;
  // Image to image: the image's latents, noised to the first level. May be in place (latents == image).
  void start(std::span<const float> image, std::span<const float> noise, std::span<float> latents) const;
  // The image as it must look after step `step` (0-based): noised to the level of the next step, clean after the last.
  // Inpainting writes it over what is to be kept.
  void noised_original(int step, std::span<const float> image, std::span<const float> noise,
                       std::span<float> out) const;

  // Calls the network exactly evaluations() times, at timesteps(). Noise and on_step may be empty when not needed.
  // `work`: work_floats(latents.size()) floats to work in; if empty, run() takes them itself.
  void run(std::span<float> latents, const Network&, const NoiseSource&, const OnStep&,
           std::span<float> work = {}) const;

 private:
  std::unique_ptr<const RunPlan> plan_;
  std::vector<double> timesteps_;
};

}  // namespace danqing
