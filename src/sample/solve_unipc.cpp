// UniPC (arXiv 2302.04867) in its image-predicting form: a multistep predictor, and a corrector that improves the point
// at which the network has just been asked, with the same evaluation.
#include <algorithm>
#include <array>
#include <cmath>

#include "sample/solver.h"

namespace danqing {
namespace {

constexpr int kMaxOrder = 3;

// Weights of the differences (m_j - m_0) / r_j, for nodes r_j in units of the step h: the solution of
// sum_j rho_j r_j^k = b_k, b_k from the phi functions. One node alone has weight 1/2, as the authors' code has it.
std::array<double, kMaxOrder> node_weights(std::span<const double> r, double h, bool bh1) {
  const int q = static_cast<int>(r.size());
  if (q == 1) return {0.5};
  const double hh = -h, b_h = bh1 ? hh : std::expm1(hh);
  double a[kMaxOrder][kMaxOrder + 1], phi = std::expm1(hh) / hh - 1, factorial = 1;
  for (int k = 0; k < q; ++k) {
    for (int j = 0; j < q; ++j) a[k][j] = std::pow(r[j], k);
    a[k][q] = phi * factorial / b_h;
    factorial *= k + 2;
    phi = phi / hh - 1 / factorial;
  }
  for (int k = 0; k < q; ++k) {  // Gauss-Jordan with pivoting
    int best = k;
    for (int i = k + 1; i < q; ++i)
      if (std::abs(a[i][k]) > std::abs(a[best][k])) best = i;
    std::swap(a[k], a[best]);
    for (int i = 0; i < q; ++i) {
      if (i == k) continue;
      const double f = a[i][k] / a[k][k];
      for (int j = k; j <= q; ++j) a[i][j] -= f * a[k][j];
    }
  }
  std::array<double, kMaxOrder> out{};
  for (int k = 0; k < q; ++k) out[k] = a[k][q] / a[k][k];
  return out;
}

// Moves x by one step with differences to `images` (images[0] belongs to `from`, images[j] to node r[j - 1]).
void step(const Solver& s, const Level& from, const Level& to, std::span<const double> r,
          const std::array<std::span<float>, kMaxOrder + 1>& images, std::span<float> x) {
  const double h = to.log_snr() - from.log_snr();
  const double b_h = s.options().bh1 ? -h : std::expm1(-h);
  std::array<double, kMaxOrder + 1> c{-to.alpha * std::expm1(-h)};
  if (!r.empty()) {
    const auto rho = node_weights(r, h, s.options().bh1);
    for (size_t j = 0; j < r.size(); ++j) {
      const double w = -to.alpha * b_h * rho[j] / r[j];
      c[j + 1] += w, c[0] -= w;
    }
  }
  mix(x, {{to.sigma / from.sigma, x}, {c[0], images[0]}, {c[1], images[1]}, {c[2], images[2]}, {c[3], images[3]}});
}

}  // namespace

void solve_unipc(Solver& s) {
  // image[0] is the newest evaluation; the level of image[j] is leg(i - j).from.
  std::array<std::span<float>, kMaxOrder + 1> image{s.buffer(0), s.buffer(1), s.buffer(2), s.buffer(3)};
  const auto before = s.buffer(4);  // x where the last predictor started
  const int most = std::clamp(s.order(), 1, kMaxOrder);
  std::array<double, kMaxOrder> r{};
  // Nodes of `count` earlier evaluations seen from step i, in units of its h; none where a level repeats.
  const auto nodes = [&](int i, int count) {
    const double start = s.leg(i).from.log_snr(), h = s.leg(i).to.log_snr() - start;
    for (int j = 1; j <= count; ++j) {
      r[j - 1] = (s.leg(i - j).from.log_snr() - start) / h;
      if (!(r[j - 1] < (j > 1 ? r[j - 2] : 0)) || std::isinf(r[j - 1])) return j - 1;
    }
    return count;
  };
  int order = 0;
  for (int i = 0; i < s.count(); ++i) {
    const auto& [eval, from, to] = s.leg(i);
    std::rotate(image.begin(), image.end() - 1, image.end());
    s.denoise(eval, s.x, image[0]);
    if (i > 0 && s.leg(i - 1).from.s > from.s) {
      const int known = nodes(i - 1, order - 1);
      r[known] = 1;  // the new evaluation itself
      auto seen = image;
      std::rotate(seen.begin(), seen.begin() + 1, seen.begin() + known + 2);
      mix(s.x, {{1, before}});
      step(s, s.leg(i - 1).from, from, std::span(r).first(known + 1), seen, s.x);
    }
    order = std::min({most, i + 1, s.options().lower_order_final ? s.count() - i : most});
    if (to.sigma == 0) order = 1;
    mix(before, {{1, s.x}});
    if (from.s > to.s) step(s, from, to, std::span(r).first(nodes(i, order - 1)), image, s.x);
    s.finish(i);
  }
}

}  // namespace danqing
