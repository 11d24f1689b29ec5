#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/qwen_tokenizer.h"

#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "text/clip_tokenizer.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kMerges = 151387;

// The markers in order of their ids.
constexpr int32_t kFirstMarker = 151643;
constexpr std::string_view kMarkers[] = {
    "<|endoftext|>",  "<|im_start|>",   "<|im_end|>",      "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>",  "<|box_end|>",    "<|quad_start|>",  "<|quad_end|>",         "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>",   "<|video_pad|>",        "<tool_call>",
    "</tool_call>",   "<|fim_prefix|>", "<|fim_middle|>",  "<|fim_suffix|>",       "<|fim_pad|>",
    "<|repo_name|>",  "<|file_sep|>",   "<tool_response>", "</tool_response>",     "<think>",
    "</think>"};

// Property White_Space, in a class; PCRE2's \s has U+180E besides.
#define SPACES "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

// The split of Qwen's tokenizer.json: contractions, words with what stands in front of them, single digits, other
// signs, line ends, spaces.
constexpr char kWords[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" SPACES
                          "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+";
#undef SPACES

// The marker at the start of `text`, -1: none.
int marker_at(std::string_view text) {
  for (size_t i = 0; i < std::size(kMarkers); ++i) {
    if (text.starts_with(kMarkers[i])) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

struct QwenTokenizer::Pattern {
  pcre2_code* code;
};

void QwenTokenizer::Free::operator()(Pattern* pattern) const {
  pcre2_code_free(pattern->code);
  delete pattern;
}

QwenTokenizer::QwenTokenizer(const std::filesystem::path& data)
    : bpe_(data / "qwen3" / "merges.txt.gz", kMerges, false) {
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWords), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                   &error, &place, nullptr);
  DANQING_CHECK(code != nullptr);
  words_.reset(new Pattern{code});
}

void QwenTokenizer::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string normal = to_utf8(normalize_nfc(to_utf32(text)));
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(words_->code, nullptr), pcre2_match_data_free);
  DANQING_CHECK(match != nullptr);
  for (size_t at = 0; at < normal.size();) {
    const int found = pcre2_match(words_->code, reinterpret_cast<PCRE2_SPTR>(normal.data()), normal.size(), at,
                                  PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      throw Error(Fault::request, "the prompt cannot be cut into words (PCRE2 error " + std::to_string(found) + ")");
    }
    DANQING_CHECK(found > 0);  // every character belongs to one of the alternatives
    const size_t end = pcre2_get_ovector_pointer(match.get())[1];
    bpe_.encode(std::string_view(normal).substr(at, end - at), ids);
    at = end;
  }
}

std::vector<int32_t> QwenTokenizer::encode(std::string_view text) const {
  check_prompt_size(text);
  std::vector<int32_t> ids;
  size_t begin = 0;
  for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at)) {
    const int marker = marker_at(text.substr(at));
    if (marker < 0) {
      ++at;
      continue;
    }
    encode_plain(text.substr(begin, at - begin), ids);
    ids.push_back(kFirstMarker + marker);
    begin = at += kMarkers[marker].size();
  }
  encode_plain(text.substr(begin), ids);
  return ids;
}

std::string qwen_chat(std::string_view prompt) {
  return "<|im_start|>user\n" + std::string(prompt) + "<|im_end|>\n<|im_start|>assistant\n";
}

QwenPrompt encode_qwen_chat(const QwenTokenizer& tokenizer, std::string_view prompt) {
  check_prompt_size(prompt);
  QwenPrompt result{tokenizer.encode(qwen_chat(prompt)), 0};
  if (result.ids.size() > kQwenPromptTokens) {
    result.cut = result.ids.size() - kQwenPromptTokens;
    result.ids.resize(kQwenPromptTokens);
  }
  return result;
}

}  // namespace danqing
