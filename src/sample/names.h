// The one table of samplers and of schedules. Adding a sampler: its step function (solver.h) and a row here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sample/schedule.h"

namespace danqing {

class Solver;

// How diffusers lays out a sampler's timesteps.
enum class Grid {
  points,          // n timesteps, then zero noise (Euler, Heun, LMS)
  rounded_points,  // the same; timesteps of Karras sigmas are rounded (KDPM2)
  ddim,            // n timesteps; each step goes down by 1000 / n whatever comes next
  plms,            // as ddim, with the second timestep twice: n + 1 evaluations (PNDM)
  ends,            // n of n + 1 timesteps, the smallest is left out, then zero noise (DPM++ multistep)
  ends_from_one,   // the same; for flow the first sigma is 1 - 1e-6 (UniPC)
  ends_at_min,     // the same; ends at the smallest level instead of zero noise (DEIS)
  lcm,             // every k-th of the 50 timesteps of the distillation
};

// The variables a sampler works in: `ratio` = image + s noise, as k-diffusion; `share` = a image + b noise with
// a^2 + b^2 = 1 (a + b = 1 for flow), as the network sees it.
enum class Space { ratio, share };

struct SamplerInfo {
  std::string_view name;     // as danqing writes it
  std::string_view label;    // as A1111 shows it
  std::string_view aliases;  // further spellings and diffusers' class, separated by '|'
  void (*run)(Solver&);
  Grid grid = Grid::points;
  Space diffusers = Space::ratio;  // its variables in diffusers
  Space elsewhere = Space::ratio;  // ... and in A1111 and ComfyUI
  int evaluations = 1;             // a step; a last step to zero noise needs one
  bool stochastic = false;         // adds noise while it runs
  bool brownian = false;           // its noise should depend on the sigmas, not on the count of steps: BrownianNoise
  double eta = 0;                  // default share of fresh noise
  int order = 1;                   // default order of a multistep solver ...
  int max_order = 1;               // ... and its limit
  bool heun = false;               // DPM++: default form of the second-order term
};

struct ScheduleInfo {
  Schedule schedule;
  std::string_view name, label, aliases;
  bool discrete_only;  // has no meaning for flow models
};

std::span<const SamplerInfo> samplers();
std::span<const ScheduleInfo> schedules();

// Accept any case, spaces or underscores, a "k_" or "sample_" in front, A1111 labels and diffusers class names.
// "DPM++ 2M Karras" names a sampler and a schedule. Unknown: Error(request) that lists the known names.
struct SamplerChoice {
  const SamplerInfo* sampler;
  std::optional<Schedule> schedule;  // when the name holds one
};
SamplerChoice sampler_named(std::string_view name);
Schedule schedule_named(std::string_view name);
const ScheduleInfo& info(Schedule);

}  // namespace danqing
