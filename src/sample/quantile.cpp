#include "sample/quantile.h"

#include <cmath>

namespace danqing {
namespace {

// Continued fraction of the incomplete beta function (Lentz's method; Abramowitz and Stegun 26.5.8).
double fraction(double x, double a, double b) {
  const auto safe = [](double v) { return std::abs(v) < 1e-300 ? 1e-300 : v; };
  double c = 1, d = 1 / safe(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / safe(1 + even * d), c = safe(1 + even / c), h *= d * c;
    d = 1 / safe(1 + odd * d), c = safe(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return h;
}

double share_below(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
  return x < (a + 1) / (a + b + 2) ? front * fraction(x, a, b) / a : 1 - front * fraction(1 - x, b, a) / b;
}

}  // namespace

double beta_quantile(double p, double a, double b) {
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  if (p > 0.5) return 1 - beta_quantile(1 - p, b, a);  // keeps the digits near 1
  double low = 0, high = 1;
  for (int i = 0; i < 200 && high - low > 1e-16 * high; ++i) {
    const double middle = (low + high) / 2;
    (share_below(middle, a, b) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace danqing
