// Sigma schedules: which noise levels a run visits. Each is a pure function of the model's levels and the step count.
#pragma once

#include <vector>

#include "sample/levels.h"

namespace danqing {

enum class Schedule {
  automatic,  // the convention's default: "normal"; for diffusers the timestep spacing of the configuration
  normal,
  karras,
  exponential,
  sgm_uniform,
  simple,
  ddim_uniform,
  beta,
  ays_sd15,
  ays_sdxl,
  kl_optimal,
};

inline constexpr int kMaxSteps = 1000;

// Descending sigmas, the closing 0 included (kl_optimal alone ends at the smallest level): one more value than steps.
// ddim_uniform and beta (ComfyUI's) may return another number of steps than asked for. With one step
// every schedule starts at the largest level, save A1111's ays and ddim_uniform, which start at a small one there as
// here. Convention decides "beta" and "ays", which A1111 and ComfyUI define differently.
std::vector<double> sigma_schedule(Schedule, const Levels&, int steps, Convention);

// Values between two sigmas, as k-diffusion and diffusers space them; `steps` values, both ends included, no closing 0.
std::vector<double> karras_sigmas(double max, double min, int steps);
std::vector<double> exponential_sigmas(double max, double min, int steps);
std::vector<double> beta_sigmas(double max, double min, int steps);

// `steps` equally spaced values from a to b, both included (one step: a only).
std::vector<double> linspace(double a, double b, int steps);

}  // namespace danqing
