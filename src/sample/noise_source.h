// Where the noise of stochastic samplers comes from: a stream an image (as diffusers and A1111's ancestral samplers) or
// a Brownian path an image. An image's noise depends on its own seed only, never on the batch it runs in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sample/noise.h"
#include "sample/sampler.h"

namespace danqing {

// A Brownian path W over sigma for each of `count` values; the noise of a step is (W(from) - W(to)) / sqrt(from - to).
// W is a pure function of the seed and sigma, so runs with more steps follow the same path: their increments over an
// interval sum to the same, and the composition stays. (k-diffusion's BrownianTreeNoiseSampler has this property too;
// the values are danqing's own: a virtual binary tree over [0, 8192] whose nodes are Philox blocks.)
class BrownianNoise {
 public:
  BrownianNoise(uint64_t seed, size_t count);
  void draw(std::span<float> out, double from, double to);  // out.size() == count, 0 <= to < from <= 8192

 private:
  void path(double sigma, std::vector<float>& w);
  uint64_t seed_;
  std::vector<float> from_, to_, left_, right_;
};

// `latents` of the run are split evenly between the images, in order; each continues its own generator.
NoiseSource stream_noise(std::vector<std::shared_ptr<NoiseGenerator>> images);
// One path an image; `count` values an image.
NoiseSource brownian_noise(std::span<const uint64_t> seeds, size_t count);

}  // namespace danqing
