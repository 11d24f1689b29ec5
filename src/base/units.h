// Quantities with their units: a bare number in a signature is a review comment. GiB = 2^30 everywhere.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace danqing {

template <class Tag, class Rep>
struct Quantity {
  Rep value{};
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep n) { return Quantity(a.value * n); }
};

using Bytes = Quantity<struct BytesTag, int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;

inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

std::string to_string(Bytes);    // "3.20 GiB", "512 MiB", "17 B"
std::string to_string(Flops);    // "2.51 TFLOP", "803 GFLOP"
std::string to_string(Seconds);  // "830 ms", "12.4 s", "3 min 20 s", "2 h 05 min"

// "8GiB", "8 GB" (= 8 GiB, as people mean it), "512M", "1.5g", "1048576": at least one byte, else Error(request).
Bytes parse_bytes(const std::string& text, const std::string& what);

}  // namespace danqing
