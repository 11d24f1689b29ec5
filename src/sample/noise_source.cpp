#include "sample/noise_source.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace danqing {
namespace {

constexpr double kSpan = kMaxSigma;        // no schedule changes the tree
constexpr double kFinest = 0x1p-20;        // below this the path is straight
constexpr uint32_t kPurpose = 0x42524f57;  // keeps the counters apart from PhiloxNoise's

// out[i] += factor * the node's i-th normal.
void add_normals(std::span<float> out, double factor, uint64_t seed, uint64_t node) {
  for (size_t i = 0; i < out.size(); i += 4) {
    const PhiloxBlock r = philox(
        {{static_cast<uint32_t>(node), static_cast<uint32_t>(node >> 32), static_cast<uint32_t>(i / 4), kPurpose}},
        seed);
    for (size_t pair = 0; pair < 4 && i + pair < out.size(); pair += 2) {
      const float radius = std::sqrt(-2 * std::log((static_cast<float>(r.word[pair] >> 8) + 0.5f) * 0x1p-24f));
      const float angle = static_cast<float>(r.word[pair + 1] >> 8) * (0x1p-24f * 2 * std::numbers::pi_v<float>);
      out[i + pair] += static_cast<float>(factor) * radius * std::cos(angle);
      if (i + pair + 1 < out.size()) out[i + pair + 1] += static_cast<float>(factor) * radius * std::sin(angle);
    }
  }
}

}  // namespace

BrownianNoise::BrownianNoise(uint64_t seed, size_t count)
    : seed_(seed), from_(count), to_(count), left_(count), right_(count) {}

// Lévy's construction: the middle of [a, b] is the mean of its ends plus a normal of variance (b - a) / 4.
void BrownianNoise::path(double sigma, std::vector<float>& w) {
  std::fill(left_.begin(), left_.end(), 0.0f);
  std::fill(right_.begin(), right_.end(), 0.0f);
  add_normals(right_, std::sqrt(kSpan), seed_, 0);
  double a = 0, b = kSpan;
  for (uint64_t node = 1; b - a > kFinest;) {
    const double middle = (a + b) / 2;
    for (size_t i = 0; i < w.size(); ++i) w[i] = (left_[i] + right_[i]) / 2;
    add_normals(w, std::sqrt((b - a) / 4), seed_, node);
    const bool low = sigma < middle;
    std::swap(low ? right_ : left_, w);
    (low ? b : a) = middle;
    node = 2 * node + (low ? 0 : 1);
  }
  const auto share = static_cast<float>((sigma - a) / (b - a));
  for (size_t i = 0; i < w.size(); ++i) w[i] = left_[i] + (right_[i] - left_[i]) * share;
}

void BrownianNoise::draw(std::span<float> out, double from, double to) {
  DANQING_CHECK(out.size() == from_.size() && to >= 0 && to < from && from <= kSpan);
  path(from, from_);
  path(to, to_);
  const double scale = 1 / std::sqrt(from - to);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>((from_[i] - to_[i]) * scale);
}

NoiseSource stream_noise(std::vector<std::shared_ptr<NoiseGenerator>> images) {
  DANQING_CHECK(!images.empty());
  return [images = std::move(images)](std::span<float> out, double, double) {
    const size_t each = out.size() / images.size();
    DANQING_CHECK(each * images.size() == out.size());
    for (size_t i = 0; i < images.size(); ++i) images[i]->draw(out.subspan(i * each, each));
  };
}

NoiseSource brownian_noise(std::span<const uint64_t> seeds, size_t count) {
  auto paths = std::make_shared<std::vector<BrownianNoise>>();
  for (uint64_t seed : seeds) paths->emplace_back(seed, count);
  return [paths, count](std::span<float> out, double from, double to) {
    DANQING_CHECK(out.size() == count * paths->size());
    for (size_t i = 0; i < paths->size(); ++i) (*paths)[i].draw(out.subspan(i * count, count), from, to);
  };
}

}  // namespace danqing
