// Samplers of first order: one evaluation a step, no memory (PNDM apart, which is DDIM with a polynomial through the
// last four outputs).
#include <algorithm>
#include <array>
#include <cmath>

#include "sample/solver.h"

namespace danqing {

// Euler, Euler ancestral (k-diffusion), DDIM with any eta (arXiv 2010.02502, equation 12): in share space the same
// step.
void solve_euler(Solver& s) {
  const auto image = s.buffer(0);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    const auto [down, keep, up] = s.split(from, to);
    s.transfer(from, down, s.x, image, s.x);
    if (keep != 1) mix(s.x, {{keep, s.x}});
    s.add_noise(up, from, to);
    s.finish(i);
  }
}

// Latent consistency (arXiv 2310.04378): jump to the image, noise it again. diffusers blends by the boundary conditions
// of the distillation (sigma_data 0.5, times scaled by 10), which sets image = x at timestep 0.
void solve_lcm(Solver& s) {
  const auto image = s.buffer(0);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    if (s.diffusers() && !s.flow()) {
      const double t = eval.time * 10, norm = t * t + 0.25;
      mix(image, {{t / std::sqrt(norm), image}, {0.25 / norm, s.x}});
    }
    mix(s.x, {{to.signal, image}});
    s.add_noise(to.sigma, from, to);
    s.finish(i);
  }
}

// Pseudo linear multistep (arXiv 2202.09778) without the Runge-Kutta start: Adams-Bashforth over the last outputs.
// diffusers' PNDM with skip_prk_steps repeats the first step from its end point, with the mean of both outputs: there
// the second leg starts at another level than it evaluates.
void solve_pndm(Solver& s) {
  const auto image = s.buffer(4), start = s.buffer(5);
  std::array<std::span<float>, 4> e{s.buffer(0), s.buffer(1), s.buffer(2), s.buffer(3)};  // e[0] is the newest
  int known = 0;
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    const bool repeats = i == 1 && from.s != eval.s;
    if (i == 0) mix(start, {{1, s.x}});
    const auto x = repeats ? start : s.x;
    if (repeats) {
      s.output(eval, s.x, image);
      mix(image, {{0.5, image}, {0.5, e[0]}});
    } else {
      std::rotate(e.begin(), e.end() - 1, e.end());
      s.output(eval, s.x, e[0]);
      switch (known = std::min(known + 1, 4)) {
        case 1:
          mix(image, {{1, e[0]}});
          break;
        case 2:
          mix(image, {{3 / 2.0, e[0]}, {-1 / 2.0, e[1]}});
          break;
        case 3:
          mix(image, {{23 / 12.0, e[0]}, {-16 / 12.0, e[1]}, {5 / 12.0, e[2]}});
          break;
        default:
          mix(image, {{55 / 24.0, e[0]}, {-59 / 24.0, e[1]}, {37 / 24.0, e[2]}, {-9 / 24.0, e[3]}});
      }
    }
    mix(image, {{from.image_x, x}, {from.image_out, image}});
    s.transfer(from, to, x, image, s.x);
    s.finish(i);
  }
}

}  // namespace danqing
