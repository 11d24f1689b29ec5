#include "text/clip_cleaning.h"

#include <algorithm>

#include "text/mojibake.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr char32_t kEscape = 0x1B;

bool is_ligature(char32_t code) {
  return code == 0x132 || code == 0x133 || code == 0x149 || (code >= 0x1C4 && code <= 0x1CC) ||
         (code >= 0x1F1 && code <= 0x1F3) || (code >= 0xFB00 && code <= 0xFB06);
}

bool is_width_form(char32_t code) { return code == 0x3000 || (code >= 0xFF01 && code <= 0xFFEF); }

bool is_dropped_control(char32_t code) {
  return code <= 0x08 || code == 0x0B || (code >= 0x0E && code <= 0x1F) || code == 0x7F ||
         (code >= 0x206A && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFC);
}

// Characters that have a plainer twin.
void append_plainer(std::u32string& out, char32_t code) {
  if (code >= 0x80 && code < 0xA0) code = windows_1252(static_cast<unsigned char>(code));
  if (code == 0xFB05) {
    out += U"\u017Ft";  // keeps its long s, which NFKD would not
  } else if (is_ligature(code) || is_width_form(code)) {
    for (char32_t part : compatibility_form(code)) out += part == 0x2BC ? U'\'' : part;
  } else if (code == 0x2BC || (code >= 0x2018 && code <= 0x201B)) {
    out += U'\'';
  } else if (code >= 0x201C && code <= 0x201F) {
    out += U'"';
  } else {
    out += code;
  }
}

// Length of `ESC [ 1 ; 31 m` at `at`, 0: none.
size_t terminal_escape(std::u32string_view text, size_t at) {
  if (text[at] != kEscape || at + 1 >= text.size() || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == ';')) ++end;
  const char32_t letter = end < text.size() ? text[end] | 0x20 : 0;
  return letter >= 'a' && letter <= 'z' ? end + 1 - at : 0;
}

std::u32string repair_characters(std::u32string_view line) {
  std::u32string plainer;
  plainer.reserve(line.size());
  for (char32_t code : line) append_plainer(plainer, code);
  std::u32string out;
  out.reserve(plainer.size());
  for (size_t at = 0; at < plainer.size();) {
    if (const size_t length = terminal_escape(plainer, at)) {
      at += length;
    } else if (const char32_t code = plainer[at++]; !is_dropped_control(code)) {
      out += code;
    }
  }
  return normalize_nfc(out);
}

// A round removes one layer of encoding; `&amp;amp;amp;...` has as many as it likes, so rounds are counted.
std::u32string repair_line(std::u32string line, const HtmlEntities& entities) {
  const bool references = line.find(U'<') == line.npos;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    std::u32string fixed = references ? entities.unescape_closed(line) : line;
    fixed = repair_characters(repair_mojibake(fixed));
    if (fixed == line) break;
    line = std::move(fixed);
  }
  return line;
}

std::u32string repair(std::u32string_view text, const HtmlEntities& entities) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(U'\n', at), text.size() - 1) + 1;
    out += repair_line(std::u32string(text.substr(at, end - at)), entities);
    at = end;
  }
  return out;
}

std::u32string collapse_spaces(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (char32_t code : text) {
    if (!is_space(code)) {
      out += code;
    } else if (!out.empty() && out.back() != U' ') {
      out += U' ';
    }
  }
  if (!out.empty() && out.back() == U' ') out.pop_back();
  return out;
}

}  // namespace

std::string clean_clip_text(std::string_view text, ClipCleaning cleaning, const HtmlEntities& entities) {
  std::u32string code = to_utf32(text);
  if (cleaning == ClipCleaning::plain) return to_utf8(lower_case(collapse_spaces(normalize_nfc(code))));
  code = repair(code, entities);
  if (cleaning == ClipCleaning::openai) code = entities.unescape(entities.unescape(code));
  return to_utf8(lower_case_final_sigma(collapse_spaces(code)));
}

}  // namespace danqing
