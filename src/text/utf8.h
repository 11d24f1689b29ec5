// UTF-8 and the few Unicode facts that tokenizers need. Hostile bytes are allowed everywhere: each byte that starts no
// well-formed sequence (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF) counts as one U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace danqing {

inline constexpr char32_t kReplacement = 0xFFFD;

// The code point at `position`, which must lie inside `text`; `position` moves behind it.
char32_t next_code_point(std::string_view text, size_t& position);

// Start of the code point that ends before `at` > 0. Bytes that are no UTF-8 count one by one.
size_t step_back(std::string_view text, size_t at);

void append_utf8(std::string& text, char32_t code);  // surrogates and values above U+10FFFF become U+FFFD

std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view text);

bool is_letter(char32_t code);  // general category L*
bool is_number(char32_t code);  // general category N*
bool is_space(char32_t code);   // property White_Space

// The first place from `at` on that is no white space.
size_t skip_spaces(std::string_view text, size_t at);

// `end` moved back over the white space in front of it, at most to `begin`.
size_t trim_spaces(std::string_view text, size_t begin, size_t end);

// The next `word` from `from` on with no letter, number or `_` on either side; npos: none.
size_t find_word(std::string_view text, std::string_view word, size_t from);

// Normalisation form C (UAX 15). Time n log n whatever the marks.
std::u32string normalize_nfc(std::u32string_view text);

// Lower case, code point by code point: of the full mapping only I with dot above becomes two.
std::u32string lower_case(std::u32string_view text);

std::u32string upper_case(std::u32string_view text);  // simple mapping

// Lower case with a capital sigma at the end of a word as final sigma (Unicode 3.13, Final_Sigma), as Python has it.
std::u32string lower_case_final_sigma(std::u32string_view text);

// Compatibility decomposition (NFKD) of one code point.
std::u32string compatibility_form(char32_t code);

}  // namespace danqing
