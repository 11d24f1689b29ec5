#include "sample/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "sample/quantile.h"

namespace danqing {
namespace {

using Sigmas = std::vector<double>;

Sigmas equal_times(const Levels& m, int n, bool sgm) {
  const double start = m.flow() ? m.max() * 1000 : static_cast<double>(m.sigmas().size() - 1);
  const double end =
      m.flow() ? m.min() * 1000 : 0;  // for flow: the shifted levels are shifted once more, as ComfyUI does
  Sigmas out = linspace(start, end, sgm ? n + 1 : n);
  out.resize(n);
  for (double& t : out) t = m.sigma(t);
  return out;
}

Sigmas simple(const Levels& m, int n) {
  Sigmas out(n);
  const double stride = static_cast<double>(m.sigmas().size()) / n;
  for (int i = 0; i < n; ++i) out[i] = m.sigmas()[m.sigmas().size() - 1 - static_cast<size_t>(i * stride)];
  return out;
}

Sigmas ddim_uniform(const Levels& m, int n) {
  Sigmas out;
  const size_t stride = std::max<size_t>(m.sigmas().size() / n, 1);
  for (size_t i = 1; i < m.sigmas().size(); i += stride) out.push_back(m.sigmas()[i]);
  std::reverse(out.begin(), out.end());
  return out;
}

// ComfyUI rounds the quantiles to level indices and drops repeats.
Sigmas beta_levels(const Levels& m, int n) {
  Sigmas out;
  double last = -1;
  for (int i = 0; i < n; ++i) {
    const double index =
        std::nearbyint(beta_quantile(1 - static_cast<double>(i) / n, 0.6, 0.6) * (m.sigmas().size() - 1));
    if (index != last) out.push_back(m.sigmas()[static_cast<size_t>(index)]);
    last = index;
  }
  return out;
}

// "Align Your Steps" (NVIDIA, arXiv 2404.14507): 10 steps; A1111 has the published three digits, ComfyUI more.
constexpr std::array<double, 11> kAysSd15{14.615, 6.475, 3.861, 2.697, 1.886, 1.396, 0.963, 0.652, 0.399, 0.152, 0.029};
constexpr std::array<double, 11> kAysSdxl{14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113, 0.029};
constexpr std::array<double, 11> kAysSd15Long{14.6146412293, 6.4745760956, 3.8636745985, 2.6946151520,
                                              1.8841921177,  1.3943805092, 0.9642583904, 0.6523686016,
                                              0.3977456272,  0.1515232662, 0.0291671582};
constexpr std::array<double, 11> kAysSdxlLong{14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769,
                                              1.3405244945,  0.8620721141, 0.5550693289, 0.3798540708,
                                              0.2332364134,  0.1114188177, 0.0291671582};

// The table interpolated to n values, linear in log sigma.
Sigmas stretch(const std::array<double, 11>& table, int n) {
  if (n == static_cast<int>(table.size())) return {table.begin(), table.end()};
  Sigmas out(n, table.back());  // one value: the other programs read the table from its small end
  for (int i = 0; i < n && n > 1; ++i) {
    const double at = 10.0 * i / (n - 1);
    const int low = std::min(static_cast<int>(at), 9);
    out[i] = std::exp(std::lerp(std::log(table[low]), std::log(table[low + 1]), at - low));
  }
  return out;
}

Sigmas ays(Schedule s, int n, Convention c) {
  const bool sdxl = s == Schedule::ays_sdxl;
  if (c != Convention::comfyui) return stretch(sdxl ? kAysSdxl : kAysSd15, n);
  Sigmas out = stretch(sdxl ? kAysSdxlLong : kAysSd15Long, n + 1);
  out.pop_back();
  return out;
}

Sigmas kl_optimal(const Levels& m, int n) {
  Sigmas out(n + 1);
  for (int i = 0; i <= n; ++i) {
    const double u = static_cast<double>(i) / n;
    out[i] = std::tan(u * std::atan(m.min()) + (1 - u) * std::atan(m.max()));
  }
  return out;
}

}  // namespace

std::vector<double> linspace(double a, double b, int n) {
  Sigmas out(n, a);
  const double step = n > 1 ? (b - a) / (n - 1) : 0;  // in numpy's order: what is rounded later depends on the last bit
  for (int i = 1; i < n; ++i) out[i] = i == n - 1 ? b : i * step + a;
  return out;
}

std::vector<double> karras_sigmas(double max, double min, int n) {  // arXiv 2206.00364, equation 5, rho = 7
  Sigmas out = linspace(std::pow(max, 1 / 7.0), std::pow(min, 1 / 7.0), n);
  for (double& s : out) s = std::pow(s, 7);
  return out;
}

std::vector<double> exponential_sigmas(double max, double min, int n) {
  Sigmas out = linspace(std::log(max), std::log(min), n);
  for (double& s : out) s = std::exp(s);
  return out;
}

std::vector<double> beta_sigmas(double max, double min, int n) {  // arXiv 2407.12173
  Sigmas out = linspace(1, 0, n);
  for (double& s : out) s = min + beta_quantile(s, 0.6, 0.6) * (max - min);
  return out;
}

std::vector<double> sigma_schedule(Schedule schedule, const Levels& m, int n, Convention convention) {
  DANQING_CHECK(n >= 1);
  const auto pick = [&]() -> Sigmas {
    switch (schedule) {
      case Schedule::automatic:
      case Schedule::normal:
        return equal_times(m, n, false);
      case Schedule::sgm_uniform:
        return equal_times(m, n, true);
      case Schedule::karras:
        return karras_sigmas(m.max(), m.min(), n);
      case Schedule::exponential:
        return exponential_sigmas(m.max(), m.min(), n);
      case Schedule::simple:
        return simple(m, n);
      case Schedule::ddim_uniform:
        return ddim_uniform(m, n);
      case Schedule::beta:
        return convention == Convention::comfyui ? beta_levels(m, n) : beta_sigmas(m.max(), m.min(), n);
      case Schedule::ays_sd15:
      case Schedule::ays_sdxl:
        return ays(schedule, n, convention);
      case Schedule::kl_optimal:
        return kl_optimal(m, n);
    }
    DANQING_CHECK(false);
  };
  Sigmas out = pick();
  if (schedule != Schedule::kl_optimal) out.push_back(0);
  return out;
}

}  // namespace danqing
