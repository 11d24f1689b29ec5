// Token ids and weights in the chunks of 77 that CLIP encodes one by one: start, 75 places, end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/clip_tokenizer.h"
#include "text/prompt.h"

namespace danqing {

inline constexpr size_t kChunkTokens = 77;
inline constexpr size_t kChunkPlaces = 75;

// What stands behind the end token. CLIP-L pads with its end token; SDXL's second encoder and SD 2 with 0.
inline constexpr int32_t kPadEnd = kClipEnd;
inline constexpr int32_t kPadZero = 0;

struct Chunk {
  std::vector<int32_t> tokens;  // [77]
  std::vector<float> weights;   // [77], 1 for start, end and padding
  size_t end = 0;               // place of the token that closes the text: where the pooled row is taken
};

struct PromptChunks {
  std::vector<Chunk> chunks;  // at least one
  size_t tokens = 0;          // of the text, without start, end and padding
  size_t cut = 0;             // tokens that found no place: the caller warns
};

// A1111's way: 75 tokens a chunk; where a chunk is full and its last comma is at most 20 tokens back, what follows the
// comma moves to the next chunk (option comma_padding_backtrack); a break ends the chunk. A break counts whatever
// brackets stand around it (A1111 itself then reads BREAK as a word). Throws Error(request) where a weight is out of
// float's range.
PromptChunks chunk_a1111(const ClipTokenizer& tokenizer, std::span<const WeightedText> pieces, ClipCleaning cleaning,
                         int32_t pad);

// ComfyUI's way: words are cut at spaces and encoded one by one; a word of fewer than 8 tokens is kept in one chunk, a
// longer one runs over the edge.
PromptChunks chunk_comfyui(const ClipTokenizer& tokenizer, std::span<const WeightedText> pieces, ClipCleaning cleaning,
                           int32_t pad);

// diffusers' way: one chunk, the rest of the text is cut and counted. Padding with 0 makes `!` a token of its
// own, id 0, wherever it stands: to transformers a pad token is a special one, and `!` is that of SDXL's second
// tokenizer.
PromptChunks chunk_truncated(const ClipTokenizer& tokenizer, std::string_view text, ClipCleaning cleaning, int32_t pad);

// The chunk of an empty text.
Chunk empty_chunk(int32_t pad);

// Appends empty chunks to the shorter of the two, so that guidance can compare them.
void pad_to_same_length(PromptChunks& positive, PromptChunks& negative, int32_t pad);

}  // namespace danqing
