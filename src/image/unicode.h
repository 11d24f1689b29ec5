// UTF-8, UTF-16 and Latin-1 conversions for metadata and file names. Malformed input becomes U+FFFD, never an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace danqing::unicode {

std::u32string from_utf8(std::string_view);
std::string to_utf8(std::u32string_view);

std::u32string from_utf16(std::span<const uint8_t> bytes, bool big_endian);
std::string to_utf16_be(std::u32string_view);

// Valid UTF-8 without NUL: what a text chunk can hold.
std::string clean(std::string_view utf8);

}  // namespace danqing::unicode
