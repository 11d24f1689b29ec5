// Samplers that evaluate twice a step: within the step (Heun, DPM2, DPM++ 2S and SDE) or over two of them (singlestep).
// All but the last work in ratio space, where the path's direction is (x - image) / s.
#include <cmath>

#include "sample/solver.h"

namespace danqing {

// arXiv 2206.00364, algorithm 1 without churn.
void solve_heun(Solver& s) {
  const auto image = s.buffer(0), guess = s.buffer(1), image2 = s.buffer(2);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    if (to.sigma == 0) {
      s.transfer(from, to, s.x, image, s.x);
    } else {
      s.transfer(from, to, s.x, image, guess);
      s.denoise(to, guess, image2);
      const double half = (to.s - from.s) / 2;
      mix(s.x, {{1 + half / from.s, s.x}, {-half / from.s, image}, {half / to.s, guess}, {-half / to.s, image2}});
    }
    s.finish(i);
  }
}

// DPM-Solver-2 of the same paper's appendix, k-diffusion's sample_dpm_2 and its ancestral form: midpoint in log s.
void solve_dpm_2(Solver& s) {
  const auto image = s.buffer(0), guess = s.buffer(1);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    const auto [down, keep, up] = s.split(from, to);
    if (down.s == 0) {
      s.transfer(from, down, s.x, image, s.x);
    } else {
      const Level middle = s.level(std::sqrt(from.s * down.s));
      s.transfer(from, middle, s.x, image, guess);
      s.denoise(middle, guess, image);
      const double slope = (down.s - from.s) / middle.s;
      mix(s.x, {{keep, s.x}, {keep * slope, guess}, {-keep * slope, image}});
    }
    s.add_noise(up, from, to);
    s.finish(i);
  }
}

// DPM-Solver++(2S) (arXiv 2211.01095) to the ancestral target.
void solve_dpmpp_2s_ancestral(Solver& s) {
  const auto image = s.buffer(0), guess = s.buffer(1);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    const auto [down, keep, up] = s.split(from, to);
    if (down.s > 0) {
      const Level middle = s.level(std::sqrt(from.s * down.s));
      s.transfer(from, middle, s.x, image, guess);
      s.denoise(middle, guess, image);
    }
    s.transfer(from, down, s.x, image, s.x);
    if (keep != 1) mix(s.x, {{keep, s.x}});
    s.add_noise(up, from, to);
    s.finish(i);
  }
}

// DPM-Solver++ SDE with the midpoint r = 1/2: an ancestral step to the middle, then one over the whole interval.
void solve_dpmpp_sde(Solver& s) {
  const auto image = s.buffer(0), start = s.buffer(1);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    s.denoise(eval, s.x, image);
    if (to.s > 0) {
      mix(start, {{1, s.x}});
      const Level middle = s.level(std::sqrt(from.s * to.s));
      const auto [down, keep, up] = s.split(from, middle);
      s.transfer(from, down, s.x, image, s.x);
      if (keep != 1) mix(s.x, {{keep, s.x}});
      s.add_noise(up, from, middle);
      s.denoise(middle, s.x, image);
      mix(s.x, {{1, start}});
    }
    const auto [down, keep, up] = s.split(from, to);
    s.transfer(from, down, s.x, image, s.x);
    if (keep != 1) mix(s.x, {{keep, s.x}});
    s.add_noise(up, from, to);
    s.finish(i);
  }
}

// diffusers' DPMSolverSinglestep of order 2: steps go in pairs; the second starts again from the pair's beginning with
// both evaluations. The last step is of first order, and so is the one before when the count is even.
void solve_dpmpp_singlestep(Solver& s) {
  const auto first = s.buffer(0), second = s.buffer(1), start = s.buffer(2);
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    const bool pair_ends = s.order() == 2 && i % 2 == 1 && i + 1 < s.count();
    s.denoise(eval, s.x, i % 2 == 0 ? first : second);
    if (i % 2 == 0) mix(start, {{1, s.x}});
    const Level& begin = pair_ends ? s.leg(i - 1).from : from;
    const double whole = to.log_snr() - begin.log_snr(), part = from.log_snr() - begin.log_snr();
    if (pair_ends && part > 0 && to.sigma > 0) {
      const double weight = whole / (2 * part);
      mix(second, {{weight, second}, {1 - weight, first}});
      s.transfer(begin, to, start, second, s.x);
    } else {
      s.transfer(from, to, s.x, i % 2 == 0 ? first : second, s.x);
    }
    s.finish(i);
  }
}

}  // namespace danqing
