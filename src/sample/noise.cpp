#include "sample/noise.h"

#include <cmath>
#include <numbers>

namespace danqing {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// 16 uniforms become 16 normals in place: the first half gives radii, the second half angles.
void box_muller_16(float* u) {
  for (int i = 0; i < 8; ++i) {
    const double radius = std::sqrt(-2 * std::log(1.0 - u[i]));
    const double angle = kTwoPi * u[i + 8];
    u[i] = static_cast<float>(radius * std::cos(angle));
    u[i + 8] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

float TorchNoise::uniform() { return static_cast<float>(word() & 0xFFFFFF) * 0x1p-24f; }

double TorchNoise::uniform53() {
  const uint64_t high = word();
  const uint64_t low = word();
  return static_cast<double>((high << 32 | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

void TorchNoise::draw(std::span<float> out) {
  const size_t n = out.size();
  if (n >= 16) {
    for (float& v : out) v = uniform();
    for (size_t i = 0; i + 16 <= n; i += 16) box_muller_16(&out[i]);
    if (n % 16 == 0) return;
    for (size_t i = n - 16; i < n; ++i) out[i] = uniform();  // a ragged tail redraws the last 16 values
    box_muller_16(&out[n - 16]);
    return;
  }
  for (float& v : out) {
    if (spare_) {
      v = static_cast<float>(*spare_);
      spare_.reset();
      continue;
    }
    const double turn = uniform53();
    const double radius = std::sqrt(-2 * std::log1p(-uniform53()));
    v = static_cast<float>(radius * std::cos(kTwoPi * turn));
    spare_ = radius * std::sin(kTwoPi * turn);
  }
}

PhiloxBlock philox(PhiloxBlock c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const uint64_t p = uint64_t{0xD2511F53} * c.word[0], q = uint64_t{0xCD9E8D57} * c.word[2];
    c = {{static_cast<uint32_t>(q >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(q),
          static_cast<uint32_t>(p >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p)}};
  }
  return c;
}

void PhiloxNoise::draw(std::span<float> out) {
  // The constants are rounded to float first, as cuRAND has them.
  const double unit = 2.3283064e-10f, turn = 2.3283064e-10f * 6.2831855f;
  for (size_t i = 0; i < out.size(); ++i) {
    const PhiloxBlock r = philox({{draws_, 0, static_cast<uint32_t>(i), 0}}, seed_);
    const double u = r.word[0] * unit + unit / 2;
    const double v = r.word[1] * turn + turn / 2;
    out[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::sin(v));
  }
  ++draws_;
}

std::unique_ptr<NoiseGenerator> noise_generator(NoiseKind kind, uint64_t seed) {
  if (kind == NoiseKind::philox) return std::make_unique<PhiloxNoise>(seed);
  return std::make_unique<TorchNoise>(seed);
}

}  // namespace danqing
