// Repairs UTF-8 that was read as Windows-1252: "cafÃ©" -> "café".
#pragma once

#include <string>
#include <string_view>

namespace danqing {

// The Windows-1252 character of a byte; the five bytes that have none stand for themselves (C1 controls).
char32_t windows_1252(unsigned char byte);

// `line`: one line of text. Three- and four-byte sequences are repaired wherever they stand: real text does not look
// like them. Two-byte sequences are repaired in a line whose non-ASCII characters all belong to such sequences, two or
// more of them; elsewhere only where the first is Â or Ã, or the second a C1 control, and the second is no quote, dash
// or other punctuation that real text puts behind a capital letter.
std::u32string repair_mojibake(std::u32string_view line);

}  // namespace danqing
