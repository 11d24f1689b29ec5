#include "text/clip_tokenizer.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kMerges = 48894;
constexpr std::string_view kStartText = "<|startoftext|>", kEndText = "<|endoftext|>";

char32_t peek(std::string_view text, size_t at) { return at < text.size() ? next_code_point(text, at) : U'\0'; }

// End of the run from `at` on in which `belongs` holds.
template <class Belongs>
size_t run_end(std::string_view text, size_t at, Belongs belongs) {
  while (at < text.size()) {
    size_t next = at;
    if (!belongs(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

size_t contraction(std::string_view rest) {
  constexpr std::array<std::string_view, 7> kEndings = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (std::string_view ending : kEndings) {
    if (rest.starts_with(ending)) return ending.size();
  }
  return 0;
}

// The word at `at`, which is no space: a contraction, a run of letters, one digit, or a run of anything else.
// The text is lower case already.
size_t word_end(std::string_view text, size_t at) {
  if (const size_t length = contraction(text.substr(at))) return at + length;
  const char32_t first = peek(text, at);
  if (is_letter(first)) return run_end(text, at, is_letter);
  if (is_number(first)) return next_code_point(text, at), at;
  return run_end(text, at, [](char32_t code) { return !is_space(code) && !is_letter(code) && !is_number(code); });
}

}  // namespace

void check_prompt_size(std::string_view text) {
  if (text.size() > kMaxPromptBytes) {
    throw Error(Fault::request, "the prompt has " + std::to_string(text.size()) + " bytes, the limit is " +
                                    std::to_string(kMaxPromptBytes) + " bytes");
  }
}

ClipTokenizer::ClipTokenizer(const std::filesystem::path& data)
    : bpe_(data / "clip" / "merges.txt.gz", kMerges, true), entities_(data / "html_entities.txt.gz") {}

std::vector<int32_t> ClipTokenizer::encode(std::string_view text, ClipCleaning cleaning) const {
  check_prompt_size(text);
  const std::string cleaned = clean_clip_text(text, cleaning, entities_);
  std::vector<int32_t> ids;
  size_t marker = 0;  // place of the next `<|startoftext|>` or `<|endoftext|>`
  const auto find_marker = [&](size_t from) {
    return std::min(cleaned.find(kStartText, from), cleaned.find(kEndText, from));
  };
  marker = find_marker(0);
  const std::string_view view = cleaned;
  for (size_t at = 0; at < view.size();) {
    if (at == marker) {
      const bool start = view.substr(at).starts_with(kStartText);
      ids.push_back(start ? kClipStart : kClipEnd);
      at += start ? kStartText.size() : kEndText.size();
      marker = find_marker(at);
    } else if (is_space(peek(view, at))) {
      next_code_point(view, at);
    } else {
      const size_t end = word_end(view.substr(0, marker), at);
      bpe_.encode(view.substr(at, end - at), ids);
      at = end;
    }
  }
  return ids;
}

}  // namespace danqing
