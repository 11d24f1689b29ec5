// Samplers that evaluate once a step and remember earlier evaluations.
#include <algorithm>
#include <array>
#include <cmath>

#include "sample/solver.h"

namespace danqing {
namespace {

// The order a step can have: what history there is, what diffusers' lower_order_final leaves, first order to zero
// noise.
int order_at(const Solver& s, int i) {
  int order = std::min(s.order(), i + 1);
  if (s.leg(i).to.sigma == 0) return 1;
  if (s.diffusers() && s.options().lower_order_final && s.count() < 15) order = std::min(order, s.count() - i);
  if (s.diffusers() && s.options().euler_at_final && i + 1 == s.count()) return 1;
  return order;
}

// Integral over [a, b] of the Lagrange polynomial that is 1 at nodes[j] and 0 at the others: two Gauss points are exact
// up to degree 3.
double lagrange_integral(std::span<const double> nodes, int j, double a, double b) {
  double sum = 0;
  for (double point : {-1 / std::sqrt(3.0), 1 / std::sqrt(3.0)}) {
    const double at = (a + b) / 2 + (b - a) / 2 * point;
    double value = 1;
    for (size_t k = 0; k < nodes.size(); ++k)
      if (static_cast<int>(k) != j) value *= (at - nodes[k]) / (nodes[j] - nodes[k]);
    sum += value;
  }
  return sum * (b - a) / 2;
}

}  // namespace

// DPM-Solver++ 2M, 3M (arXiv 2211.01095) and their SDE forms: eta = 0 is the deterministic solver. h is the step in log
// SNR; first and second divided differences of the image enter with the phi functions of exponential integrators.
void solve_dpmpp_multistep(Solver& s) {
  std::array<std::span<float>, 3> image{s.buffer(0), s.buffer(1), s.buffer(2)};  // newest first
  const auto sum = s.buffer(3);
  double h1 = 0, h2 = 0;  // earlier steps
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    std::rotate(image.begin(), image.end() - 1, image.end());
    s.denoise(eval, s.x, image[0]);
    const double h = to.log_snr() - from.log_snr(), eta = s.eta();
    int order = order_at(s, i);
    if (h1 <= 0) order = 1;
    if (h2 <= 0) order = std::min(order, 2);
    const double g = h * (1 + eta), phi1 = -std::expm1(-g), phi2 = 1 - phi1 / g;
    double c0 = phi1, c1 = 0, c2 = 0;  // weights of the images
    if (order == 2) {
      const double d = (s.heun() ? phi2 : phi1 / 2) * h / h1;
      c0 += d, c1 -= d;
    } else if (order == 3) {
      const double phi3 = phi2 / g - 0.5, r0 = h1 / h, r1 = h2 / h;
      // phi2 * first - phi3 * second difference, each a combination of (m0 - m1) / r0 and (m1 - m2) / r1
      const double a = phi2 * (1 + r0 / (r0 + r1)) - phi3 / (r0 + r1), b = -phi2 * r0 / (r0 + r1) + phi3 / (r0 + r1);
      c0 += a / r0, c1 += b / r1 - a / r0, c2 -= b / r1;
    }
    if (h > 0) {  // a repeated timestep moves nothing
      mix(sum, {{c0, image[0]}, {c1, image[1]}, {c2, image[2]}});
      const double keep = to.sigma > 0 ? to.sigma / from.sigma * std::exp(-eta * h) : 0;  // h is infinite there
      mix(s.x, {{keep, s.x}, {to.alpha, sum}});
      if (eta > 0) s.add_noise(to.sigma * std::sqrt(-std::expm1(-2 * eta * h)), from, to);
      h2 = h1, h1 = h;
    }
    s.finish(i);
  }
}

// Linear multistep in s with up to four directions (k-diffusion's sample_lms).
void solve_lms(Solver& s) {
  std::array<std::span<float>, 4> slope{s.buffer(0), s.buffer(1), s.buffer(2), s.buffer(3)};
  std::array<double, 4> node{};
  int known = 0;
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    if (known > 0 && node[0] == from.s) known = 0;  // a repeated level: the polynomial would have no value
    std::rotate(slope.begin(), slope.end() - 1, slope.end());
    std::rotate(node.begin(), node.end() - 1, node.end());
    known = std::min(known + 1, s.order());
    node[0] = from.s;
    s.denoise(eval, s.x, slope[0]);
    mix(slope[0], {{1 / from.s, s.x}, {-1 / from.s, slope[0]}});
    std::array<double, 4> c{};
    for (int j = 0; j < known; ++j) c[j] = lagrange_integral(std::span(node).first(known), j, from.s, to.s);
    mix(s.x, {{1, s.x}, {c[0], slope[0]}, {c[1], slope[1]}, {c[2], slope[2]}, {c[3], slope[3]}});
    s.finish(i);
  }
}

// DEIS of order 2 (arXiv 2204.13902, log-rho form): the noise is extrapolated linearly in log rho, rho = sigma / alpha.
// The differences of logarithms are in float, as diffusers takes them: they lose digits where levels lie close
// together.
void solve_deis(Solver& s) {
  std::array<std::span<float>, 2> noise{s.buffer(0), s.buffer(1)};
  const auto image = s.buffer(2);
  float earlier = 0;  // rho of the step before
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    std::swap(noise[0], noise[1]);
    s.denoise(eval, s.x, image);
    mix(noise[0], {{1 / from.sigma, s.x}, {-from.alpha / from.sigma, image}});
    const auto rho = static_cast<float>(from.sigma / from.alpha), next = static_cast<float>(to.sigma / to.alpha);
    if (order_at(s, i) == 1 || earlier <= rho) {
      s.transfer(from, to, s.x, image, s.x);
    } else {
      // Integral from rho to next of the line in log rho that is 1 at b and 0 at c.
      const auto weight = [&](float b, float c) {
        const auto f = [&](float t) { return t * (std::log(t) - std::log(c) - 1) / (std::log(b) - std::log(c)); };
        return f(next) - f(rho);
      };
      mix(s.x, {{to.alpha / from.alpha, s.x},
                {to.alpha * weight(rho, earlier), noise[0]},
                {to.alpha * weight(earlier, rho), noise[1]}});
    }
    earlier = rho;
    s.finish(i);
  }
}

}  // namespace danqing
