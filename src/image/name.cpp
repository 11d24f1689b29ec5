// A prompt as a file name.
#include <string_view>

#include "image/unicode.h"
#include "image/write.h"

namespace danqing {
namespace {

// Kept: ASCII letters, digits and '_' '-'; beyond ASCII all but controls, spaces, marks of direction and private use.
bool kept(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  const bool space = c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
                     c == 0x202F || c == 0x205F || c == 0x3000;
  const bool invisible = c < 0xA0 || c == 0xAD || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
                         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || c == 0xFFFD || (c & 0xFFFE) == 0xFFFE ||
                         (c >= 0xE000 && c <= 0xF8FF) || c >= 0xE0000;
  const bool separator = c == 0x2215 || c == 0x2044 || c == 0x29F8 || c == 0xFF0F || c == 0xFF3C;  // look like '/' '\'
  return !space && !invisible && !separator;
}

// Windows opens the device for these whatever the ending.
bool reserved(const std::string& name) {
  std::string upper;
  for (char c : name) upper += c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  if (upper == "CON" || upper == "PRN" || upper == "AUX" || upper == "NUL") return true;
  const std::string_view start = std::string_view(upper).substr(0, 3);
  return upper.size() == 4 && (start == "COM" || start == "LPT") && upper[3] >= '0' && upper[3] <= '9';
}

}  // namespace

std::string safe_stem(const std::string& prompt, size_t max_bytes) {
  std::string out;
  bool gap = false;
  for (char32_t c : unicode::from_utf8(prompt)) {
    if (!kept(c) || c == '_') {
      gap = true;
      continue;
    }
    if (out.empty() && c == '-') continue;  // would read as an option
    std::string next = gap && !out.empty() ? "_" : "";
    next += unicode::to_utf8({&c, 1});
    if (out.size() + next.size() > max_bytes) break;
    out += next;
    gap = false;
  }
  if (out.empty()) out = "picture";
  return reserved(out) ? out + "_" : out;
}

}  // namespace danqing
