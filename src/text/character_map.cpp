// Layout of the compiled map (SentencePiece, normalizer.cc): u32 size of the trie in bytes, the trie's u32 units, all
// little-endian, then the replacements. Units as in Darts-clone: bit 8 leaf, bits 0-7 and 31 label, bits 10-30 offset,
// shifted by 8 where bit 9 is set; a leaf's unit holds the place of its replacement.
#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"
#include "text/t5_tokenizer.h"
#include "text/utf8.h"

namespace danqing {

namespace {

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

// End of the grapheme cluster (UAX 29) that starts at `at`.
size_t grapheme_end(std::string_view text, size_t at) {
  char32_t previous = next_code_point(text, at);
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    size_t next = at;
    const char32_t code = next_code_point(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous), static_cast<utf8proc_int32_t>(code),
                                         &state)) {
      break;
    }
    previous = code;
    at = next;
  }
  return at;
}

}  // namespace

CharacterMap::CharacterMap(std::string_view compiled) {
  const size_t bytes = compiled.size() < 4 ? SIZE_MAX : read_u32(compiled, 0);
  if (bytes == 0 || bytes % 4 != 0 || bytes > compiled.size() - 4) {
    throw Error(Fault::file, "T5 tokenizer: the normaliser's map of " + std::to_string(compiled.size()) +
                                 " bytes does not hold the trie it announces");
  }
  for (size_t at = 4; at < 4 + bytes; at += 4) units_.push_back(read_u32(compiled, at));
  replacements_ = compiled.substr(4 + bytes);
}

bool CharacterMap::find(std::string_view text, std::string_view& replacement) const {
  if (units_.empty()) return false;
  size_t node = offset_of(units_[0]);
  for (unsigned char byte : text) {
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return false;
    const uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != byte) return false;
    node ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (node >= units_.size()) return false;
    const size_t begin = units_[node] & ~(1u << 31);
    if (begin > replacements_.size()) return false;
    const size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    replacement = std::string_view(replacements_).substr(begin, end - begin);
    return true;
  }
  return false;
}

std::string CharacterMap::apply(std::string_view text) const {
  constexpr size_t kWholeGrapheme = 5;
  std::string out;
  out.reserve(text.size());
  std::string_view replacement;
  for (size_t at = 0; at < text.size();) {
    const size_t end = grapheme_end(text, at);
    if (end - at <= kWholeGrapheme && find(text.substr(at, end - at), replacement)) {
      out += replacement;
      at = end;
    }
    while (at < end) {
      const size_t begin = at;
      next_code_point(text, at);
      const std::string_view character = text.substr(begin, at - begin);
      out += find(character, replacement) ? replacement : character;
    }
  }
  return out;
}

}  // namespace danqing
