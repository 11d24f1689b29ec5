#include "sample/quantile.h"

#include <algorithm>
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

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

double share_below(double x, double a, double b, double log_b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(a * std::log(x) + b * std::log1p(-x) - log_b);
  return x < (a + 1) / (a + b + 2) ? front * fraction(x, a, b) / a : 1 - front * fraction(1 - x, b, a) / b;
}

}  // namespace

double beta_quantile(double p, double a, double b) {
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  if (p > 0.5) return 1 - beta_quantile(1 - p, b, a);  // keeps the digits near 1
  const double log_b = log_beta(a, b);
  double low = 0, high = 1, x = std::min(std::exp((std::log(p * a) + log_b) / a), 0.5);  // exact as p goes to 0
  for (int i = 0; i < 200; ++i) {  // Newton's method, halving where it would leave the bracket
    const double error = share_below(x, a, b, log_b) - p;
    (error < 0 ? low : high) = x;
    const double step = error / std::exp((a - 1) * std::log(x) + (b - 1) * std::log1p(-x) - log_b);
    const double next = x - step > low && x - step < high ? x - step : (low + high) / 2;
    if (std::abs(next - x) <= 1e-16 * x) break;
    x = next;
  }
  return x;
}

}  // namespace danqing
