#include "sample/levels.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace danqing {
namespace {

// torch.linspace in float: from both ends towards the middle.
std::vector<float> linspace_f32(float start, float end, int n) {
  std::vector<float> out(n);
  const float step = n > 1 ? (end - start) / static_cast<float>(n - 1) : 0;
  for (int i = 0; i < n; ++i)
    out[i] = i < n / 2 ? start + step * static_cast<float>(i) : end - step * static_cast<float>(n - 1 - i);
  return out;
}

// Signal shares a_i = product of (1 - beta).
std::vector<double> signal_shares(const Training& t, bool all_float) {
  std::vector<double> shares(t.count);
  const double start = t.scaled_linear ? std::sqrt(t.beta_start) : t.beta_start;
  const double end = t.scaled_linear ? std::sqrt(t.beta_end) : t.beta_end;
  const auto f32 = linspace_f32(static_cast<float>(start), static_cast<float>(end), t.count);
  double product = 1;
  for (int i = 0; i < t.count; ++i) {
    if (all_float) {
      const float beta = t.scaled_linear ? f32[i] * f32[i] : f32[i];
      product *= 1 - beta;
      shares[i] = static_cast<float>(product);
    } else {
      const double root = t.count > 1 ? start + (end - start) * i / (t.count - 1) : start;
      product *= 1 - (t.scaled_linear ? root * root : root);
      shares[i] = product;
    }
  }
  return shares;
}

// Shift and stretch sqrt(a) so that the first level stays and the last has no signal left. The last is then lifted to
// 2^-24 (sigma = 4096), as diffusers does, so that no ratio is infinite.
void rescale_to_zero_snr(std::vector<double>& shares) {
  const double first = std::sqrt(shares.front()), last = std::sqrt(shares.back());
  for (double& a : shares) {
    const double root = (std::sqrt(a) - last) * first / (first - last);
    a = root * root;
  }
  shares.back() = 0x1p-24;
}

double interpolate(std::span<const double> values, double at) {
  const double top = static_cast<double>(values.size() - 1);
  const double t = std::clamp(at, 0.0, top);
  const auto low = static_cast<size_t>(t);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (t - static_cast<double>(low));
}

void check(const Training& t) {
  const auto need = [](bool ok, const std::string& what) {
    if (!ok) throw Error(Fault::request, "noise levels: " + what);
  };
  need(t.count >= 2 && t.count <= 100000, "the model has " + std::to_string(t.count) + " levels, wanted 2 to 100000");
  need(t.beta_start > 0 && t.beta_end < 1 && t.beta_start <= t.beta_end,
       "betas go from " + std::to_string(t.beta_start) + " to " + std::to_string(t.beta_end) +
           ", wanted 0 < start <= end < 1");
  need(t.shift > 0 && t.shift <= 1000,
       "the flow shift is " + std::to_string(t.shift) + ", wanted more than 0 up to 1000");
}

}  // namespace

double shifted(double sigma, double shift) { return shift * sigma / (1 + (shift - 1) * sigma); }

Levels::Levels(const Training& training, Convention convention) : training_(training) {
  check(training_);
  sigmas_.resize(training_.count);
  if (flow()) {
    for (int i = 0; i < training_.count; ++i) sigmas_[i] = shifted((i + 1.0) / training_.count, training_.shift);
  } else {
    auto shares = signal_shares(training_, convention == Convention::diffusers);
    if (training_.zero_terminal_snr) rescale_to_zero_snr(shares);
    for (int i = 0; i < training_.count; ++i) {
      const auto a = static_cast<float>(shares[i]);
      sigmas_[i] = convention == Convention::comfyui ? std::sqrt((1 - shares[i]) / shares[i]) : std::sqrt((1 - a) / a);
    }
  }
  if (!(min() > 0 && max() <= kMaxSigma))  // NaN included
    throw Error(Fault::request, "noise levels: the betas give sigmas from " + std::to_string(min()) + " to " +
                                    std::to_string(max()) + ", wanted more than 0 up to " + std::to_string(kMaxSigma));
  // diffusers keeps the logarithms in float; it truncates some timesteps, so the last bit shows.
  const bool round = convention == Convention::diffusers;
  for (double s : sigmas_) logs_.push_back(round ? std::log(static_cast<float>(s)) : std::log(s));
}

double Levels::time(double sigma) const {
  if (flow()) return sigma * 1000;
  const double log = std::log(std::max(sigma, 1e-10));
  const auto above = std::upper_bound(logs_.begin(), logs_.end(), log);
  if (above == logs_.begin()) return 0;
  if (above == logs_.end()) return static_cast<double>(logs_.size() - 1);
  const auto low = above - 1;
  return static_cast<double>(low - logs_.begin()) + (log - *low) / (*above - *low);
}

double Levels::nearest(double sigma) const {
  if (flow()) return sigma * 1000;
  const double log = std::log(std::max(sigma, 1e-10));
  const auto above = std::lower_bound(logs_.begin(), logs_.end(), log);
  if (above == logs_.begin()) return 0;
  if (above == logs_.end() || log - *(above - 1) <= *above - log) return static_cast<double>(above - 1 - logs_.begin());
  return static_cast<double>(above - logs_.begin());
}

double Levels::sigma(double time) const {
  return flow() ? shifted(time / 1000, training_.shift) : std::exp(interpolate(logs_, time));
}

double Levels::sigma_linear(double time) const { return interpolate(sigmas_, time); }

}  // namespace danqing
