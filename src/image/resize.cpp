#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace danqing {
namespace {

constexpr double kLobes = 3;

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }
double lanczos(double x) { return std::abs(x) < kLobes ? sinc(x) * sinc(x / kLobes) : 0; }

// The inputs that one output sample sums: `weights` from `first` on; they add up to 1.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(int from, int to) {
  const double ratio = double(from) / to, widening = std::max(ratio, 1.0), reach = kLobes * widening;
  std::vector<Taps> out(to);
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * ratio;
    const int first = std::max(int(centre - reach + 0.5), 0), end = std::min(int(centre + reach + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int k = first; k < end; ++k) sum += weights.emplace_back(lanczos((k - centre + 0.5) / widening));
    out[i].first = first;
    for (double w : weights) out[i].weights.push_back(float(w / sum));
  }
  return out;
}

uint8_t to_byte(float x) { return uint8_t(std::clamp(std::floor(x + 0.5f), 0.f, 255.f)); }

using Samples = std::vector<uint8_t>;  // [height, width, channels]

Samples across(const Samples& in, int width, int height, int channels, int to) {
  const std::vector<Taps> taps = taps_of(width, to);
  Samples out(size_t(height) * to * channels);
  for (int y = 0; y < height; ++y) {
    const uint8_t* row = in.data() + size_t(y) * width * channels;
    uint8_t* result = out.data() + size_t(y) * to * channels;
    for (const Taps& t : taps) {
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        const uint8_t* sample = row + size_t(t.first) * channels + c;
        for (float w : t.weights) sum += w * *sample, sample += channels;
        *result++ = to_byte(sum);
      }
    }
  }
  return out;
}

Samples down(const Samples& in, int row, int height, int to) {  // row = width * channels
  const std::vector<Taps> taps = taps_of(height, to);
  Samples out(size_t(to) * row);
  std::vector<float> sums(row);
  for (int y = 0; y < to; ++y) {
    std::fill(sums.begin(), sums.end(), 0.f);
    const uint8_t* sample = in.data() + size_t(taps[y].first) * row;
    for (float w : taps[y].weights) {
      for (int i = 0; i < row; ++i) sums[i] += w * sample[i];
      sample += row;
    }
    std::transform(sums.begin(), sums.end(), out.begin() + size_t(y) * row, to_byte);
  }
  return out;
}

Samples lanczos(const Samples& in, int width, int height, int channels, int to_width, int to_height) {
  DANQING_CHECK(to_width > 0 && to_height > 0 && in.size() == size_t(width) * height * channels);
  Samples out = to_width == width ? in : across(in, width, height, channels, to_width);
  return to_height == height ? out : down(out, to_width * channels, height, to_height);
}

Samples nearest(const Samples& in, int width, int height, int channels, int to_width, int to_height) {
  DANQING_CHECK(to_width > 0 && to_height > 0 && in.size() == size_t(width) * height * channels);
  Samples out;
  out.reserve(size_t(to_width) * to_height * channels);
  const float step_x = float(width) / float(to_width), step_y = float(height) / float(to_height);  // float as torch
  for (int y = 0; y < to_height; ++y) {
    const int from_y = std::min(int(float(y) * step_y), height - 1);
    for (int x = 0; x < to_width; ++x) {
      const int from_x = std::min(int(float(x) * step_x), width - 1);
      const uint8_t* sample = in.data() + (size_t(from_y) * width + from_x) * channels;
      out.insert(out.end(), sample, sample + channels);
    }
  }
  return out;
}

}  // namespace

Image resize_lanczos(const Image& image, int width, int height) {
  return {width, height, lanczos(image.rgb, image.width, image.height, 3, width, height)};
}
Mask resize_lanczos(const Mask& mask, int width, int height) {
  return {width, height, lanczos(mask.value, mask.width, mask.height, 1, width, height)};
}
Image resize_nearest(const Image& image, int width, int height) {
  return {width, height, nearest(image.rgb, image.width, image.height, 3, width, height)};
}
Mask resize_nearest(const Mask& mask, int width, int height) {
  return {width, height, nearest(mask.value, mask.width, mask.height, 1, width, height)};
}

std::vector<float> to_signed(const Image& image) {
  std::vector<float> out(image.rgb.size());
  to_signed(image, out);
  return out;
}

void to_signed(const Image& image, std::span<float> out) {
  DANQING_CHECK(out.size() == image.rgb.size());
  std::transform(image.rgb.begin(), image.rgb.end(), out.begin(), [](uint8_t v) { return 2.f * (v / 255.f) - 1.f; });
}

Image from_signed(std::span<const float> pixels, int width, int height) {
  DANQING_CHECK(width > 0 && height > 0 && pixels.size() == size_t{3} * width * height);
  const auto bad = std::count_if(pixels.begin(), pixels.end(), [](float x) { return std::isnan(x); });
  if (bad) {
    throw Error(Fault::numeric, "the picture has " + std::to_string(bad) + " of " + std::to_string(pixels.size()) +
                                    " values that are not numbers (NaN)");
  }
  Image image{width, height, std::vector<uint8_t>(pixels.size())};
  std::transform(pixels.begin(), pixels.end(), image.rgb.begin(), [](float x) {
    return uint8_t(std::nearbyint(std::clamp(x / 2 + 0.5f, 0.f, 1.f) * 255.f));  // the default mode: halves to even
  });
  return image;
}

}  // namespace danqing
