#include "image/unicode.h"

namespace danqing::unicode {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool valid(char32_t c) { return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF); }

// Length by the first byte; 0 where no character begins with it.
int length_of(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

}  // namespace

std::u32string from_utf8(std::string_view text) {
  static constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms exist below: overlong
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = text[i];
    const int n = length_of(first);
    char32_t c = n <= 1 ? first : first & (0x7F >> n);
    int k = 1;
    for (; k < n && i + k < text.size() && (uint8_t(text[i + k]) & 0xC0) == 0x80; ++k) {
      c = c << 6 | (uint8_t(text[i + k]) & 0x3F);
    }
    const bool good = n > 0 && k == n && valid(c) && c >= kLeast[n];
    out += good ? c : kReplacement;
    i += good ? n : 1;
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (char32_t c : text) {
    if (!valid(c)) c = kReplacement;
    if (c < 0x80) {
      out += char(c);
    } else if (c < 0x800) {
      out += {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
    } else if (c < 0x10000) {
      out += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    } else {
      out +=
          {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    }
  }
  return out;
}

std::u32string from_utf16(std::span<const uint8_t> bytes, bool big_endian) {
  const size_t count = bytes.size() / 2;
  auto unit = [&](size_t i) -> char32_t {
    return big_endian ? bytes[2 * i] << 8 | bytes[2 * i + 1] : bytes[2 * i + 1] << 8 | bytes[2 * i];
  };
  std::u32string out;
  for (size_t i = 0; i < count; ++i) {
    char32_t c = unit(i);
    if (c >= 0xD800 && c < 0xDC00 && i + 1 < count && unit(i + 1) >= 0xDC00 && unit(i + 1) < 0xE000) {
      c = 0x10000 + ((c - 0xD800) << 10) + (unit(++i) - 0xDC00);
    }
    out += valid(c) ? c : kReplacement;
  }
  return out;
}

std::string to_utf16_be(std::u32string_view text) {
  std::string out;
  auto put = [&](char32_t unit) { out += {char(unit >> 8), char(unit)}; };
  for (char32_t c : text) {
    if (!valid(c)) c = kReplacement;
    if (c < 0x10000) {
      put(c);
    } else {
      put(0xD800 + ((c - 0x10000) >> 10));
      put(0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }
  return out;
}

std::string clean(std::string_view utf8) {
  std::u32string text = from_utf8(utf8);
  for (char32_t& c : text) {
    if (c == 0) c = kReplacement;
  }
  return to_utf8(text);
}

}  // namespace danqing::unicode
