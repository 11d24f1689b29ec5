#include "base/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace danqing {

static std::string print(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Three significant digits with a unit from a ladder of `step`.
static std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::fabs(value) >= step * 0.9995 && unit + 1 != units.end()) value /= step, ++unit;
  const double size = std::fabs(value);
  return print(size >= 99.95 ? "%.0f " : size >= 9.995 ? "%.1f " : "%.2f ", value) + *unit;
}

std::string to_string(Bytes b) {
  if (b.value > -1024 && b.value < 1024) return std::to_string(b.value) + " B";
  return scaled(static_cast<double>(b.value) / 1024, 1024, {"KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string to_string(Flops f) { return scaled(f.value / 1e6, 1000, {"MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"}); }

std::string to_string(Seconds s) {
  if (s.value < 1e-3) return print("%.0f us", s.value * 1e6);
  if (s.value < 0.9995) return print("%.0f ms", s.value * 1e3);
  if (s.value < 9.995) return print("%.2f s", s.value);
  if (s.value < 99.95) return print("%.1f s", s.value);
  const int64_t whole = std::llround(s.value);
  char text[48];
  if (whole < 3600)
    std::snprintf(text, sizeof text, "%lld min %02lld s", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%lld h %02lld min", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole % 3600 / 60));
  return text;
}

Bytes parse_bytes(const std::string& text, const std::string& what) {
  const auto fail = [&]() -> Bytes {
    throw Error(Fault::request,
                what + ": \"" + text + "\" is not a size; write for example 8GiB, 512MiB or 1073741824");
  };
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || !(value > 0)) return fail();
  while (rest != end && *rest == ' ') ++rest;
  std::string unit;
  for (; rest != end; ++rest) unit += static_cast<char>(*rest >= 'A' && *rest <= 'Z' ? *rest + 32 : *rest);
  const std::string letters = "kmgt";
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const auto at = letters.find(unit[0]);
    const std::string tail = unit.substr(1);
    if (at == std::string::npos || (tail != "" && tail != "b" && tail != "ib")) return fail();
    scale = std::pow(1024.0, static_cast<double>(at + 1));
  }
  if (!(value * scale >= 1) || value * scale >= 9e18) return fail();
  return Bytes(static_cast<int64_t>(value * scale));
}

}  // namespace danqing
