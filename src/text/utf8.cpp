// Code points by hand, properties and compositions by utf8proc.
#include "text/utf8.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"

namespace danqing {

namespace {

bool is_continuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

bool is_word(char32_t code) { return code == '_' || is_letter(code) || is_number(code); }

void append_decomposed(std::u32string& out, char32_t code, int options) {
  utf8proc_int32_t parts[32];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, 32,
                                             static_cast<utf8proc_option_t>(options), &boundary);
  if (count < 0 || count > 32) {
    out += code;
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) out += static_cast<char32_t>(parts[i]);
}

int combining_class(char32_t code) { return code < 0x300 ? 0 : utf8proc_get_property(code)->combining_class; }

// utf8proc sorts marks by insertion, which is quadratic on a long run of them: sorted here.
void order_marks(std::u32string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (combining_class(text[i]) == 0) continue;
    size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + i, text.begin() + end,
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

bool is_cased(char32_t code) {
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

// Property Case_Ignorable: marks, format characters, modifiers and the word-internal punctuation of UAX 29.
bool is_case_ignorable(char32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::u32string_view(
                 U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07"
                 U"\uFF0E\uFF1A")
                 .find(code) != std::u32string_view::npos;
  }
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& position) {
  const auto byte = [&](size_t at) { return static_cast<char32_t>(static_cast<unsigned char>(text[at])); };
  const size_t start = position++;
  const char32_t lead = byte(start);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xC2 && lead <= 0xDF   ? 1
                   : lead >= 0xE0 && lead <= 0xEF ? 2
                   : lead >= 0xF0 && lead <= 0xF4 ? 3
                                                  : 0;
  if (more == 0) return kReplacement;
  char32_t code = lead & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if (!is_continuation(text, start + i)) return kReplacement;
    code = code << 6 | (byte(start + i) & 0x3F);
  }
  const char32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return kReplacement;
  position = start + more + 1;
  return code;
}

size_t step_back(std::string_view text, size_t at) {
  for (size_t length = std::min<size_t>(4, at); length > 1; --length) {
    size_t next = at - length;
    next_code_point(text, next);
    if (next == at) return at - length;
  }
  return at - 1;
}

void append_utf8(std::string& text, char32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = kReplacement;
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), tail(0);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), tail(6), tail(0);
  } else {
    put(0xF0 | code >> 18), tail(12), tail(6), tail(0);
  }
}

std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) out += next_code_point(text, at);
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t code : text) append_utf8(out, code);
  return out;
}

bool is_letter(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

size_t trim_spaces(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    size_t start = step_back(text, end), next = start;
    if (!is_space(next_code_point(text, next))) break;
    end = start;
  }
  return end;
}

size_t find_word(std::string_view text, std::string_view word, size_t from) {
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    size_t before = at > 0 ? step_back(text, at) : 0, after = at + word.size();
    const bool opens = at == 0 || !is_word(next_code_point(text, before));
    const bool closes = after == text.size() || !is_word(next_code_point(text, after));
    if (opens && closes) return at;
  }
  return text.npos;
}

std::u32string normalize_nfc(std::u32string_view text) {
  // Below U+0300 nothing decomposes that would not compose again.
  if (std::all_of(text.begin(), text.end(), [](char32_t code) { return code < 0x300; })) return std::u32string(text);
  std::u32string parts;
  parts.reserve(text.size() + 8);
  for (char32_t code : text) append_decomposed(parts, code, UTF8PROC_DECOMPOSE);
  order_marks(parts);
  static_assert(sizeof(char32_t) == sizeof(utf8proc_int32_t));
  std::vector<utf8proc_int32_t> buffer(parts.begin(), parts.end());
  const auto length = utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()),
                                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  DANQING_CHECK(length >= 0);
  return std::u32string(buffer.begin(), buffer.begin() + length);
}

std::u32string lower_case(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (char32_t code : text) {
    if (code == 0x130) {
      out += U"i\u0307";
    } else {
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    }
  }
  return out;
}

std::u32string upper_case(std::u32string_view text) {
  std::u32string out;
  for (char32_t code : text) out += static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
  return out;
}

std::u32string lower_case_final_sigma(std::u32string_view text) {
  constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (text.find(kCapitalSigma) == text.npos) return lower_case(text);
  // cased_after[i]: the next code point behind i that is not ignorable has case.
  std::vector<bool> cased_after(text.size());
  bool cased = false;
  for (size_t i = text.size(); i-- > 0;) {
    cased_after[i] = cased;
    if (!is_case_ignorable(text[i])) cased = is_cased(text[i]);
  }
  std::u32string out;
  cased = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kCapitalSigma && cased && !cased_after[i]) {
      out += kFinalSigma;
    } else {
      out += lower_case(text.substr(i, 1));
    }
    if (!is_case_ignorable(text[i])) cased = is_cased(text[i]);
  }
  return out;
}

std::u32string compatibility_form(char32_t code) {
  std::u32string out;
  append_decomposed(out, code, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  return out;
}

}  // namespace danqing
