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

// Pseudo linear multistep (arXiv 2202.09778) without the Runge-Kutta start, as diffusers' PNDM with skip_prk_steps: the
// second evaluation repeats the first step from its end point, with the mean of both outputs.
void solve_pndm(Solver& s) {
  const auto image = s.buffer(4), start = s.buffer(5);
  std::array<std::span<float>, 4> e{s.buffer(0), s.buffer(1), s.buffer(2), s.buffer(3)};  // e[0] is the newest
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    if (i == 0) mix(start, {{1, s.x}});
    if (i != 1) std::rotate(e.begin(), e.end() - 1, e.end());
    const auto out = i == 1 ? image : e[0];
    s.output(eval, s.x, out);
    const auto from_x = i == 1 ? start : s.x;
    switch (i) {
      case 0:
        mix(image, {{1, e[0]}});
        break;
      case 1:
        mix(image, {{0.5, out}, {0.5, e[0]}});
        break;
      case 2:
        mix(image, {{1.5, e[0]}, {-0.5, e[1]}});
        break;
      case 3:
        mix(image, {{23 / 12.0, e[0]}, {-16 / 12.0, e[1]}, {5 / 12.0, e[2]}});
        break;
      default:
        mix(image, {{55 / 24.0, e[0]}, {-59 / 24.0, e[1]}, {37 / 24.0, e[2]}, {-9 / 24.0, e[3]}});
    }
    mix(image, {{from.image_x, from_x}, {from.image_out, image}});
    s.transfer(from, to, from_x, image, s.x);
    s.finish(i);
  }
}

}  // namespace danqing
