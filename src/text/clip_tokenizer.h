// CLIP's byte-pair tokenizer: text -> token ids, without start, end and padding (text/chunks.h adds those).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/clip_cleaning.h"

namespace danqing {

inline constexpr int32_t kClipStart = 49406;
inline constexpr int32_t kClipEnd = 49407;
inline constexpr int32_t kClipComma = 267;  // `,` as a whole word

inline constexpr size_t kMaxPromptBytes = size_t{1} << 20;

// Throws Error(request) that names both sizes where `text` is longer than kMaxPromptBytes. Every tokenizer asks it.
void check_prompt_size(std::string_view text);

class ClipTokenizer {
 public:
  // `data`: the folder data/tokenizer. Throws Error(file).
  explicit ClipTokenizer(const std::filesystem::path& data);

  // Time n log n. Invalid UTF-8 is read as U+FFFD, byte by byte. A typed `<|startoftext|>` or `<|endoftext|>` (in any
  // case) gives that token, as the reference does: find a text's end by its length, never by looking for the id.
  std::vector<int32_t> encode(std::string_view text, ClipCleaning cleaning = ClipCleaning::ftfy) const;

 private:
  Bpe bpe_;
  HtmlEntities entities_;
};

}  // namespace danqing
