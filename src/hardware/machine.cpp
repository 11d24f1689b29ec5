#include "hardware/machine.h"

#include <array>
#include <cstdio>
#include <initializer_list>

namespace danqing {
namespace {

std::string scaled(double value, const char* unit) {
  static constexpr std::array<const char*, 5> kPrefix = {"", "k", "M", "G", "T"};
  size_t i = 0;
  while (value >= 1000 && i + 1 < kPrefix.size()) value /= 1000, ++i;
  char text[48];
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f %s%s", digits, value, kPrefix[i], unit);
  return text;
}

FlopsPerSecond first_of(std::initializer_list<FlopsPerSecond> rates) {
  for (FlopsPerSecond r : rates) {
    if (r.value > 0) return r;
  }
  return {};
}

}  // namespace

FlopsPerSecond roof(const Machine& m, DType type) {
  const Roofs& r = m.roofs;
  switch (type) {
    case DType::f32:
    case DType::f64:
      return r.f32;
    case DType::f16:
      return first_of({r.f16, r.f32});
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return first_of({r.f8, r.bf16, r.f16, r.f32});
    case DType::i8:
    case DType::u8:
      return first_of({r.int8, r.bf16, r.f16, r.f32});
    default:
      return first_of({r.bf16, r.f16, r.f32});
  }
}

std::string to_string(BytesPerSecond rate) { return scaled(rate.value, "B/s"); }
std::string to_string(FlopsPerSecond rate) { return scaled(rate.value, "FLOP/s"); }

}  // namespace danqing
