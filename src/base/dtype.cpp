#include "base/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace danqing {

static constexpr std::array kInfo = {
    DTypeInfo{"f32", 1, 4},      DTypeInfo{"f16", 1, 2},      DTypeInfo{"bf16", 1, 2},     DTypeInfo{"f64", 1, 8},
    DTypeInfo{"i64", 1, 8},      DTypeInfo{"i32", 1, 4},      DTypeInfo{"i16", 1, 2},      DTypeInfo{"i8", 1, 1},
    DTypeInfo{"u8", 1, 1},       DTypeInfo{"bool", 1, 1},     DTypeInfo{"f8_e4m3", 1, 1},  DTypeInfo{"f8_e5m2", 1, 1},
    DTypeInfo{"q8_0", 32, 34},   DTypeInfo{"q4_0", 32, 18},   DTypeInfo{"q4_1", 32, 20},   DTypeInfo{"q5_0", 32, 22},
    DTypeInfo{"q5_1", 32, 24},   DTypeInfo{"q2_k", 256, 84},  DTypeInfo{"q3_k", 256, 110}, DTypeInfo{"q4_k", 256, 144},
    DTypeInfo{"q5_k", 256, 176}, DTypeInfo{"q6_k", 256, 210},
};

const DTypeInfo& info(DType t) { return kInfo.at(static_cast<size_t>(t)); }

std::optional<DType> dtype_named(std::string_view wanted) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == wanted) return static_cast<DType>(i);
  return std::nullopt;
}

int64_t bytes_of(DType t, int64_t count) {
  const DTypeInfo& d = info(t);
  DANQING_CHECK(count >= 0 && count % d.block == 0);
  return count / d.block * d.bytes;
}

float f16_to_f32(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds past 65504
  if (magnitude < 0x38800000) {                       // subnormal or zero: the float unit rounds for us
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23);
  return sign | static_cast<uint16_t>(rounded >> 13);
}

float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }

uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f8_e4m3_to_f32(uint8_t v) {
  const float sign = v & 0x80 ? -1.f : 1.f;
  const int exponent = (v >> 3) & 15, mantissa = v & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

float f8_e5m2_to_f32(uint8_t v) { return f16_to_f32(static_cast<uint16_t>(v << 8)); }

}  // namespace danqing
