#include "sample/solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace danqing {

double Level::log_snr() const { return sigma > 0 ? std::log(alpha / sigma) : std::numeric_limits<double>::infinity(); }

void mix(std::span<float> out, std::initializer_list<Term> terms) {
  for (size_t i = 0; i < out.size(); ++i) {
    double sum = 0;
    for (const Term& t : terms) sum += t.factor * t.values[i];
    out[i] = static_cast<float>(sum);
  }
}

Solver::Solver(const RunPlan& plan, std::span<float> latents, const Network& network, const NoiseSource& noise,
               const OnStep& on_step, std::span<float> work)
    : x(latents), plan_(plan), network_(network), noise_(noise), on_step_(on_step), buffers_(work) {
  DANQING_CHECK(work.size() == kBuffers * latents.size());
  std::ranges::fill(buffers_, 0.f);
}

std::span<float> Solver::buffer(int i) {
  DANQING_CHECK(i >= 0 && i < kBuffers - 1);  // the last one is the network's input, or fresh noise
  return buffers_.subspan(i * x.size(), x.size());
}

void Solver::output(const Level& level, std::span<const float> at, std::span<float> out) {
  const auto input = buffers_.last(x.size());
  mix(input, {{level.input_scale, at}});
  network_(input, level.time, out);
}

void Solver::denoise(const Level& level, std::span<const float> at, std::span<float> image) {
  output(level, at, image);
  mix(image, {{level.image_x, at}, {level.image_out, image}});
}

void Solver::add_noise(double factor, const Level& from, const Level& to) {
  if (factor == 0) return;
  const auto noise = buffers_.last(x.size());
  noise_(noise, from.s, to.s);
  mix(x, {{1, x}, {factor * options().s_noise, noise}});
}

void Solver::finish(int step) const {
  if (on_step_) on_step_(step, count(), x);
}

void Solver::transfer(const Level& from, const Level& to, std::span<const float> at, std::span<const float> image,
                      std::span<float> out) {
  const double keep = to.sigma / from.sigma;
  mix(out, {{keep, at}, {to.alpha - from.alpha * keep, image}});
}

Split Solver::split(const Level& from, const Level& to) const {
  if (to.s <= 0 || to.s >= from.s || eta() == 0) return {to, 1, 0};
  double s;
  if (flow()) {
    s = to.s * (1 + (to.s / from.s - 1) * eta());
  } else {
    const double up = std::min(to.s, eta() * to.s * std::sqrt(1 - to.s * to.s / (from.s * from.s)));
    s = std::sqrt(to.s * to.s - up * up);
  }
  const Level down = level(std::max(s, 0.0));
  const double keep = to.signal / down.signal;
  return {down, keep, std::sqrt(std::max(to.sigma * to.sigma - down.sigma * down.sigma * keep * keep, 0.0))};
}

}  // namespace danqing
