// Character references of HTML, by the rules of the HTML standard, "Character reference state".
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/clip_cleaning.h"
#include "text/data_file.h"
#include "text/mojibake.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kLongestName = 32;

bool is_digit(char32_t code, bool hexadecimal) {
  return (code >= '0' && code <= '9') ||
         (hexadecimal && ((code >= 'a' && code <= 'f') || (code >= 'A' && code <= 'F')));
}

bool is_alphanumeric(char32_t code) {
  return is_digit(code, false) || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

// The character of a number; nothing for controls and non-characters, U+FFFD for what is no code point.
std::u32string numeric_reference(char32_t code) {
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {kReplacement};
  if (code >= 0x80 && code < 0xA0) return {windows_1252(static_cast<unsigned char>(code))};
  if (code == '\r') return U"\r";
  const bool control = (code < 0x20 && code != '\t' && code != '\n' && code != '\f') || code == 0x7F;
  const bool no_character = (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE;
  if (control || no_character) return {};
  return {code};
}

// Length of `#123;` or `#x1F;` at the start of `text` (semicolon optional), 0: none. The value stops at 0x110000.
size_t read_number(std::u32string_view text, char32_t& value) {
  if (text.size() < 2 || text[0] != '#') return 0;
  const bool hexadecimal = text[1] == 'x' || text[1] == 'X';
  const size_t start = hexadecimal ? 2 : 1;
  size_t at = start;
  value = 0;
  for (; at < text.size() && is_digit(text[at], hexadecimal); ++at) {
    const char32_t digit = text[at] <= '9' ? text[at] - '0' : (text[at] | 0x20) - 'a' + 10;
    value = std::min<char32_t>(value * (hexadecimal ? 16 : 10) + digit, 0x110000);
  }
  if (at == start) return 0;
  return at < text.size() && text[at] == ';' ? at + 1 : at;
}

std::string narrow(std::u32string_view ascii) { return std::string(ascii.begin(), ascii.end()); }

}  // namespace

HtmlEntities::HtmlEntities(const std::filesystem::path& file) {
  const std::string content = read_gzip(file);
  values_.reserve(2600);
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line(content.data() + at, end - at);
    at = end + 1;
    const size_t tab = line.find('\t');
    std::u32string value;
    for (size_t i = tab; i != line.npos && i < line.size(); i = line.find(' ', i + 1)) {
      uint32_t code = 0;
      std::from_chars(line.data() + i + 1, line.data() + line.size(), code, 16);
      value += static_cast<char32_t>(code);
    }
    if (value.empty() || value.find(U'\0') != value.npos) {
      throw Error(Fault::file, file.string() + ": \"" + std::string(line) + "\" is no name with its code points");
    }
    values_.emplace(std::string(line.substr(0, tab)), value);
  }
}

const std::u32string* HtmlEntities::find(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? nullptr : &found->second;
}

std::u32string HtmlEntities::unescape(std::u32string_view text) const {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    out += text[at++];
    if (text[at - 1] != '&') continue;
    char32_t number = 0;
    if (const size_t length = read_number(text.substr(at), number)) {
      out.pop_back();
      out += numeric_reference(number);
      at += length;
      continue;
    }
    size_t length = 0;
    while (length < kLongestName && at + length < text.size() && is_alphanumeric(text[at + length])) ++length;
    if (at + length < text.size() && text[at + length] == ';') ++length;
    for (std::string name = narrow(text.substr(at, length)); !name.empty(); name.pop_back()) {
      if (const std::u32string* value = find(name)) {
        out.pop_back();
        out += *value;
        at += name.size();
        break;
      }
    }
  }
  return out;
}

std::u32string HtmlEntities::unescape_closed(std::u32string_view text) const {
  constexpr size_t kLongest = 24;
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    out += text[at++];
    if (text[at - 1] != '&') continue;
    const std::u32string_view rest = text.substr(at);
    char32_t number = 0;
    size_t length = read_number(rest, number);
    if (length > 0) {
      if (rest[length - 1] != ';' || length > kLongest + 2) continue;
      out.pop_back();
      out += numeric_reference(number);
      at += length;
      continue;
    }
    while (length < kLongest && length < rest.size() && is_alphanumeric(rest[length])) ++length;
    if (length == 0 || length == rest.size() || rest[length] != ';') continue;
    const std::string name = narrow(rest.substr(0, length + 1));
    std::string lowered = name;
    for (char& letter : lowered) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
    const bool all_capitals = std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    const std::u32string* value = find(name);
    const std::u32string* low = value == nullptr && all_capitals ? find(lowered) : nullptr;
    if (value == nullptr && low == nullptr) continue;
    out.pop_back();
    out += value != nullptr ? *value : upper_case(*low);
    at += length + 1;
  }
  return out;
}

}  // namespace danqing
