// Quantiles of the beta distribution, for the schedules that space their steps by them.
#pragma once

namespace danqing {

// The x for which a share p of Beta(a, b) lies below x; p in [0, 1], a, b > 0.
double beta_quantile(double p, double a, double b);

}  // namespace danqing
