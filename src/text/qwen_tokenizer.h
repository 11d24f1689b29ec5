// Qwen's byte-pair tokenizer and the chat text that Z-Image puts around a prompt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace danqing {

inline constexpr int32_t kQwenPad = 151643;
inline constexpr size_t kQwenPromptTokens = 512;  // Z-Image reads no more

class QwenTokenizer {
 public:
  // `data`: the folder data/tokenizer. Throws Error(file).
  explicit QwenTokenizer(const std::filesystem::path& data);

  // The text is normalised to NFC; invalid UTF-8 is read as U+FFFD, byte by byte. A typed marker such as `<|im_end|>`
  // or
  // `<think>` gives its token, as the reference does. Throws Error(request) above kMaxPromptBytes.
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  struct Pattern;
  struct Free {
    void operator()(Pattern* pattern) const;
  };
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  Bpe bpe_;
  std::unique_ptr<Pattern, Free> words_;
};

// One user turn and the opening of the answer, thinking not switched off:
// "<|im_start|>user\n" prompt "<|im_end|>\n<|im_start|>assistant\n".
std::string qwen_chat(std::string_view prompt);

struct QwenPrompt {
  std::vector<int32_t> ids;  // at most kQwenPromptTokens, no padding
  size_t cut = 0;            // tokens that found no place: the caller warns
};

QwenPrompt encode_qwen_chat(const QwenTokenizer& tokenizer, std::string_view prompt);

}  // namespace danqing
