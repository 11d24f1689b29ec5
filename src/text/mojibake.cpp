#include "text/mojibake.h"

#include "text/utf8.h"

namespace danqing {

namespace {

// Windows-1252 from 0x80 to 0x9F.
constexpr char32_t kUpper[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
                                 0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
                                 0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

// The byte of a character, -1 where Windows-1252 has none. C1 controls pass as themselves, as sloppy decoders make
// them.
int byte_of(char32_t code) {
  if (code < 0x100) return static_cast<int>(code);
  for (int i = 0; i < 32; ++i) {
    if (kUpper[i] == code) return 0x80 + i;
  }
  return -1;
}

struct Sequence {
  size_t length = 0;  // characters, 0: none
  char32_t code = 0;
};

Sequence sequence_at(std::u32string_view line, size_t at) {
  const int lead = byte_of(line[at]);
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead <= 0xF4 ? 4 : 0;
  if (length == 0 || at + length > line.size()) return {};
  std::string bytes;
  for (size_t i = 0; i < length; ++i) {
    const int byte = byte_of(line[at + i]);
    if (byte < 0) return {};
    bytes += static_cast<char>(byte);
  }
  size_t read = 0;
  const char32_t code = next_code_point(bytes, read);
  return read == length ? Sequence{length, code} : Sequence{};
}

bool is_consistent(std::u32string_view line) {
  size_t sequences = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t length = line[at] < 0x80 ? 1 : sequence_at(line, at).length;
    if (length == 0) return false;
    sequences += length > 1;
    at += length;
  }
  return sequences > 1;
}

bool is_evident(char32_t first, char32_t second) {
  if (second >= 0x80 && second < 0xA0) return true;
  return (first == 0xC2 || first == 0xC3) && second > 0xA0 && second < 0x100 && second != 0xAB && second != 0xBB;
}

}  // namespace

char32_t windows_1252(unsigned char byte) { return byte >= 0x80 && byte < 0xA0 ? kUpper[byte - 0x80] : byte; }

std::u32string repair_mojibake(std::u32string_view line) {
  const bool consistent = is_consistent(line);
  std::u32string out;
  out.reserve(line.size());
  for (size_t at = 0; at < line.size();) {
    const Sequence found = line[at] < 0x80 ? Sequence{} : sequence_at(line, at);
    if (found.length > 2 || (found.length == 2 && (consistent || is_evident(line[at], line[at + 1])))) {
      out += found.code;
      at += found.length;
    } else {
      out += line[at++];
    }
  }
  return out;
}

}  // namespace danqing
