// Gaussian noise that equals, value by value, what users of other programs get for a seed. A generator is one stream:
// successive draws continue it (img2img draws once for the image's posterior and once for the noise).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>

namespace danqing {

class NoiseGenerator {
 public:
  virtual ~NoiseGenerator() = default;
  virtual void draw(std::span<float> out) = 0;  // fills `out` with normals of mean 0 and deviation 1
};

// torch.randn on the CPU in float32: MT19937 seeded with the low 32 bits of the seed. Words are integers bit for bit;
// floats lie within 2e-6 of torch, whose own code paths (AVX2 or not) differ by as much.
// A draw of 16 values or more uses blocks of 16 (eight radii, eight angles); a shorter one a double-precision
// Box-Muller pair at a time, whose second value is kept for a later short draw.
class TorchNoise final : public NoiseGenerator {
 public:
  explicit TorchNoise(uint64_t seed) : words_(static_cast<uint32_t>(seed)) {}
  void draw(std::span<float> out) override;
  uint32_t word() { return static_cast<uint32_t>(words_()); }
  float uniform();  // [0, 1) with 24 bits, as torch.rand

 private:
  double uniform53();
  std::mt19937 words_;
  std::optional<double> spare_;
};

// Philox4x32-10 (Salmon et al. 2011), as CUDA's randn gives for tensors of less than about 200 thousand values and as
// A1111's "NV" source: value i of draw d has counter (d, 0, i, 0) and the 64-bit seed as key.
class PhiloxNoise final : public NoiseGenerator {
 public:
  explicit PhiloxNoise(uint64_t seed) : seed_(seed) {}
  void draw(std::span<float> out) override;

 private:
  uint64_t seed_;
  uint32_t draws_ = 0;
};

struct PhiloxBlock {
  uint32_t word[4];
};
PhiloxBlock philox(PhiloxBlock counter, uint64_t key);

enum class NoiseKind { torch, philox };
std::unique_ptr<NoiseGenerator> noise_generator(NoiseKind, uint64_t seed);

}  // namespace danqing
