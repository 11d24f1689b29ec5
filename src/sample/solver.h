// What a sampler's step function sees: the run's levels, the latents, buffers and the network. Private to the room.
// In every space x = alpha * image + sigma * noise, so one formula serves k-diffusion (alpha = 1) and diffusers.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "base/error.h"
#include "sample/sampler.h"

namespace danqing {

// A noise level in the run's space; image = image_x * x + image_out * (network's output).
struct Level {
  double time = 0;  // what the network is told
  double s = 0;     // noise-to-signal ratio, for flow the noise share: what schedules and noise sources speak of
  double alpha = 1, sigma = 0;
  double signal = 1;       // the image's factor when noise is added: alpha, save for flow in ratio space
  double input_scale = 1;  // the network sees input_scale * x
  double image_x = 1, image_out = 0;
  double log_snr() const;  // log(alpha / sigma), +inf at zero noise
};

// One step: evaluate at `eval`, move from `from` to `to`. eval and from differ for PNDM only; `to` is mostly, but not
// always, the next step's `from`.
struct Leg {
  Level eval, from, to;
};

// A run, decided.
struct RunPlan {
  explicit RunPlan(const SamplerConfig&);
  Level level(double s, double time) const;
  Level level(double s) const;

  SamplerConfig config;
  Levels levels;
  Space space;
  double start_scale = 1;  // factor on the start noise of text to image, in the run's space
  std::vector<Leg> legs;
};

struct Term {
  double factor;
  std::span<const float> values;
};

// out = sum of factor * values, in double, rounded once; out may be one of the terms.
void mix(std::span<float> out, std::initializer_list<Term> terms);

// An ancestral step: go to `down` instead of the target, multiply by `keep`, add `up` times fresh noise.
struct Split {
  Level down;
  double keep, up;
};

class Solver {
 public:
  static constexpr int kBuffers = 9;
  Solver(const RunPlan&, std::span<float> x, const Network&, const NoiseSource&, const OnStep&,
         std::span<float> work);  // kBuffers times as many as x; set to zero here

  const std::span<float> x;
  int count() const { return static_cast<int>(plan_.legs.size()); }
  const Leg& leg(int i) const { return plan_.legs[i]; }
  Level level(double s) const { return plan_.level(s); }
  bool flow() const { return plan_.levels.flow(); }
  bool diffusers() const { return plan_.config.convention == Convention::diffusers; }
  const SolverOptions& options() const { return plan_.config.options; }
  double eta() const { return options().eta.value_or(plan_.config.sampler->eta); }
  int order() const { return options().order.value_or(plan_.config.sampler->order); }
  bool heun() const { return options().heun.value_or(plan_.config.sampler->heun); }

  std::span<float> buffer(int i);                                                // zero at the start, as long as x
  void output(const Level&, std::span<const float> x, std::span<float> out);     // the network's own output
  void denoise(const Level&, std::span<const float> x, std::span<float> image);  // the image it implies
  void add_noise(double factor, const Level& from, const Level& to);             // x += factor * noise; none if 0
  void finish(int step) const;

  // out at `to` from x at `from`, straight through `image`: Euler in ratio space, DDIM in share space.
  void transfer(const Level& from, const Level& to, std::span<const float> x, std::span<const float> image,
                std::span<float> out);
  // The ancestral step from `from` to `to`: the variance k-diffusion gives it; for flow ComfyUI's and Forge's form.
  Split split(const Level& from, const Level& to) const;

 private:
  const RunPlan& plan_;
  const Network& network_;
  const NoiseSource& noise_;
  const OnStep& on_step_;
  std::span<float> buffers_;
};

// The step functions, one a sampler or family of samplers.
void solve_euler(Solver&);  // solve_euler.cpp: Euler, DDIM, both ancestral
void solve_lcm(Solver&);
void solve_pndm(Solver&);
void solve_heun(Solver&);  // solve_twice.cpp: two evaluations a step
void solve_dpm_2(Solver&);
void solve_dpmpp_2s_ancestral(Solver&);
void solve_dpmpp_sde(Solver&);
void solve_dpmpp_singlestep(Solver&);
void solve_dpmpp_multistep(Solver&);  // solve_multistep.cpp: solvers that remember earlier evaluations
void solve_lms(Solver&);
void solve_deis(Solver&);
void solve_unipc(Solver&);  // solve_unipc.cpp

}  // namespace danqing
