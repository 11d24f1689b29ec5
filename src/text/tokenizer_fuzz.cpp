// Hostile prompts through everything a prompt passes. The folder with the vocabularies: DANQING_DATA, else
// data/tokenizer below the current folder. Whatever the bytes: an answer or an Error, chunks of 77, weights finite.
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "text/chunks.h"
#include "text/prompt_schedule.h"
#include "text/qwen_tokenizer.h"
#include "text/t5_tokenizer.h"

using namespace danqing;

namespace {

std::filesystem::path data_folder() {
  const char* set = std::getenv("DANQING_DATA");
  return set != nullptr ? set : "data/tokenizer";
}

void check(const PromptChunks& prompt) {
  DANQING_CHECK(!prompt.chunks.empty());
  for (const Chunk& chunk : prompt.chunks) {
    DANQING_CHECK(chunk.tokens.size() == kChunkTokens && chunk.weights.size() == kChunkTokens);
    DANQING_CHECK(chunk.end > 0 && chunk.end < kChunkTokens && chunk.tokens[chunk.end] == kClipEnd);
    for (int32_t token : chunk.tokens) DANQING_CHECK(token >= 0 && token <= kClipEnd);
    for (float weight : chunk.weights) DANQING_CHECK(std::isfinite(weight));
  }
}

void read_all(std::string_view text, ClipCleaning cleaning) {
  static const ClipTokenizer clip(data_folder());
  static const QwenTokenizer qwen(data_folder());
  static const T5Tokenizer t5(data_folder());
  check(chunk_truncated(clip, text, cleaning, kPadZero));
  check(chunk_comfyui(clip, parse_comfyui(text), cleaning, kPadEnd));
  for (const WeightedPrompt& part : split_and(text)) {
    for (const ScheduledPrompt& stretch : schedule_prompt(part.text, {4})) {
      check(chunk_a1111(clip, parse_a1111(stretch.text), cleaning, kPadEnd));
    }
  }
  for (int32_t id : encode_qwen_chat(qwen, text).ids) DANQING_CHECK(id >= 0 && id < 151669);
  for (int32_t id : t5.encode(text)) DANQING_CHECK(id >= 0 && id < 32100);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    read_all(text, static_cast<ClipCleaning>(data[0] % 3));
  } catch (const Error&) {
  }
  return 0;
}
