// Values to quantised blocks. q8_0 and q4_0 round as the reference does, bit for bit; the K formats leave the choice of
// scales free, and here each group's is searched for the least squared error.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "weights/blocks.h"

namespace danqing {
namespace {

// Rounds half away from zero into [low, high]; a NaN becomes `low`, so no conversion is undefined.
int level(float value, int low, int high) {
  const float rounded = std::round(value);
  return rounded > static_cast<float>(low) ? static_cast<int>(std::min(rounded, static_cast<float>(high))) : low;
}

float inverse(float d) { return d == 0 ? 0 : 1 / d; }

void put_half(uint8_t* at, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

float largest(const float* x, int n) {  // the value of largest magnitude, with its sign
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (std::abs(x[i]) > std::abs(best)) best = x[i];
  return best;
}

void encode_q8_0(const float* x, uint8_t* out) {
  const float d = std::abs(largest(x, 32)) / 127;
  put_half(out, d);
  for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(level(x[i] * inverse(d), -127, 127));
}

void encode_q4_0(const float* x, uint8_t* out) {
  const float d = largest(x, 32) / -8;
  const float id = inverse(d);
  put_half(out, d);
  const auto nibble = [&](int i) {  // the reference truncates after adding a half
    const float shifted = x[i] * id + 8.5f;
    return shifted > 0 ? static_cast<int>(std::min(shifted, 15.f)) : 0;
  };
  for (int i = 0; i < 16; ++i) out[2 + i] = static_cast<uint8_t>(nibble(i) | nibble(i + 16) << 4);
}

struct Fit {
  float scale = 0, min = 0;  // value = scale * level - min, both not negative
};

// Four values at once, in the vector notation that GCC and Clang share: sums of floats are not vectorised by
// themselves.
using Four = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));

// The nearest of the whole numbers low..high; halves go up, a NaN becomes `low`.
inline Four nearest(Four value, float low, float high) {
  const Four lows = Four{} + low, highs = Four{} + high;
  Four kept = value > lows ? value : lows;
  kept = kept < highs ? kept : highs;
  return __builtin_convertvector(__builtin_convertvector(kept - lows + 0.5f, FourInts), Four) + lows;
}
inline float sum(Four v) { return (v[0] + v[1]) + (v[2] + v[3]); }

template <int n>
std::array<Four, n / 4> fours(const float* x) {
  std::array<Four, n / 4> out;
  std::memcpy(&out, x, sizeof out);
  return out;
}

constexpr int kLine = 32;  // values that share a scale and a minimum

// Best scale and minimum for levels 0..top: tries a few scales around the plain one, and for each the least-squares
// line through its levels.
Fit fit_line(const float* values, float top) {
  const auto [low_at, high_at] = std::minmax_element(values, values + kLine);
  const float low = std::min(*low_at, 0.f), high = *high_at;
  if (!(high > low) || !std::isfinite(high - low)) return {0, -low};
  const auto x = fours<kLine>(values);
  Fit best;
  float least = INFINITY;
  for (int step = -8; step <= 8; step += 2) {
    Fit fit{(high - low) / (top + 0.1f * static_cast<float>(step)), -low};
    Four l_sum{}, ll_sum{}, x_sum{}, lx_sum{};
    for (const Four v : x) {
      const Four l = nearest((v + fit.min) * (1 / fit.scale), 0, top);
      l_sum += l, ll_sum += l * l, x_sum += v, lx_sum += l * v;
    }
    const float sl = sum(l_sum), sll = sum(ll_sum), sx = sum(x_sum), slx = sum(lx_sum), det = kLine * sll - sl * sl;
    if (det > 0) {
      const float scale = (kLine * slx - sl * sx) / det, min = (sl * slx - sll * sx) / det;
      if (scale > 0 && min >= 0) fit = {scale, min};
      if (scale > 0 && min < 0) fit = {slx / sll, 0};  // a minimum is never negative
    }
    Four error{};
    for (const Four v : x) {
      const Four miss = v - (fit.scale * nearest((v + fit.min) * (1 / fit.scale), 0, top) - fit.min);
      error += miss * miss;
    }
    if (sum(error) < least) least = sum(error), best = fit;
  }
  return best;
}

// d, dmin, and eight 6-bit scales and minimums, then the levels against the rounded scales.
void encode_six_bit(const float* x, int top, uint8_t* out, uint8_t* levels) {
  Fit fits[8];
  float most = 0, most_min = 0;
  for (int j = 0; j < 8; ++j) {
    fits[j] = fit_line(x + kLine * j, static_cast<float>(top));
    most = std::max(most, fits[j].scale), most_min = std::max(most_min, fits[j].min);
  }
  put_half(out, most / 63);
  put_half(out + 2, most_min / 63);
  uint16_t bits[2];
  std::memcpy(bits, out, 4);
  const float d = f16_to_f32(bits[0]), dmin = f16_to_f32(bits[1]);
  uint8_t* packed = out + 4;
  std::memset(packed, 0, 12);
  for (int j = 0; j < 8; ++j) {
    const int scale = level(fits[j].scale * inverse(d), 0, 63), min = level(fits[j].min * inverse(dmin), 0, 63);
    if (j < 4) {
      packed[j] |= static_cast<uint8_t>(scale), packed[j + 4] |= static_cast<uint8_t>(min);
    } else {
      packed[j + 4] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
      packed[j - 4] |= static_cast<uint8_t>(scale >> 4 << 6), packed[j] |= static_cast<uint8_t>(min >> 4 << 6);
    }
    const float step = inverse(d * static_cast<float>(scale)), from = dmin * static_cast<float>(min);
    for (int i = 32 * j; i < 32 * j + 32; ++i) levels[i] = static_cast<uint8_t>(level((x[i] + from) * step, 0, top));
  }
}

void put_nibbles(const uint8_t* levels, uint8_t* out) {
  for (int i = 0; i < 128; ++i) {
    const int first = i / 32 * 64 + i % 32;
    out[i] = static_cast<uint8_t>((levels[first] & 15) | (levels[first + 32] & 15) << 4);
  }
}

void encode_q4_k(const float* x, uint8_t* out) {
  uint8_t levels[256];
  encode_six_bit(x, 15, out, levels);
  put_nibbles(levels, out + 16);
}

void encode_q5_k(const float* x, uint8_t* out) {
  uint8_t levels[256];
  encode_six_bit(x, 31, out, levels);
  std::memset(out + 16, 0, 32);
  for (int i = 0; i < 256; ++i) out[16 + i % 32] |= static_cast<uint8_t>(levels[i] >> 4 << (i / 32));
  put_nibbles(levels, out + 48);
}

constexpr int kScaled = 16;  // values that share a scale in q6_k

// Best scale for levels -32..31: candidates around the plain one, each refined by least squares.
float fit_scale(const float* values) {
  const float most = largest(values, kScaled);
  if (most == 0 || !std::isfinite(most)) return most;
  const auto x = fours<kScaled>(values);
  float best = 0, least = INFINITY;
  for (int step = -6; step <= 6; step += 2) {
    float scale = most / -(32.f + 0.25f * static_cast<float>(step));
    Four ll_sum{}, lx_sum{}, error{};
    for (const Four v : x) {
      const Four l = nearest(v * (1 / scale), -32, 31);
      ll_sum += l * l, lx_sum += l * v;
    }
    if (sum(ll_sum) > 0 && sum(lx_sum) != 0) scale = sum(lx_sum) / sum(ll_sum);
    for (const Four v : x) {
      const Four miss = v - scale * nearest(v * (1 / scale), -32, 31);
      error += miss * miss;
    }
    if (sum(error) < least) least = sum(error), best = scale;
  }
  return best;
}

void encode_q6_k(const float* x, uint8_t* out) {
  float scales[16];
  for (int g = 0; g < 16; ++g) scales[g] = fit_scale(x + kScaled * g);
  put_half(out + 208, largest(scales, 16) / -128);
  uint16_t bits;
  std::memcpy(&bits, out + 208, 2);
  const float d = f16_to_f32(bits);
  std::memset(out, 0, 192);
  for (int i = 0; i < 256; ++i) {
    const int scale = level(scales[i / 16] * inverse(d), -128, 127);
    out[192 + i / 16] = static_cast<uint8_t>(scale);
    const int l = level(x[i] * inverse(d * static_cast<float>(scale)), -32, 31) + 32;
    const int half = i / 128, run = i % 128 / 32;
    out[half * 64 + run % 2 * 32 + i % 32] |= static_cast<uint8_t>((l & 15) << (run / 2 * 4));
    out[128 + half * 32 + i % 32] |= static_cast<uint8_t>(l >> 4 << (run * 2));
  }
}

}  // namespace

void encode_block(DType type, const float* in, std::byte* raw) {
  uint8_t* out = reinterpret_cast<uint8_t*>(raw);
  switch (type) {
    case DType::q8_0:
      return encode_q8_0(in, out);
    case DType::q4_0:
      return encode_q4_0(in, out);
    case DType::q4_k:
      return encode_q4_k(in, out);
    case DType::q5_k:
      return encode_q5_k(in, out);
    case DType::q6_k:
      return encode_q6_k(in, out);
    default:
      DANQING_CHECK(false && "no encoder for this format");
  }
}

}  // namespace danqing
