// Numbers as prompts write them, independent of the locale.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace danqing {

// All of `text` as a finite number, an optional sign in front; `1.`, `.5`, `1e3` are numbers, hexadecimal, "inf", "nan"
// are not.
inline std::optional<double> parse_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace danqing
