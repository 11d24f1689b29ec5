#include "text/chunks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace danqing {

namespace {

constexpr size_t kNone = SIZE_MAX;

float checked_weight(const WeightedText& piece) {
  const float weight = static_cast<float>(piece.weight);
  if (!std::isfinite(weight)) {
    throw Error(Fault::request, "prompt: the weight of \"" + piece.text.substr(0, 40) + "\" is " +
                                    std::to_string(piece.weight) + ", outside the range of float");
  }
  return weight;
}

// Fills chunks place by place.
class Filler {
 public:
  explicit Filler(int32_t pad) : pad_(pad) {}

  size_t used() const { return tokens_.size(); }
  bool full() const { return tokens_.size() == kChunkPlaces; }

  void add(int32_t token, float weight) {
    tokens_.push_back(token);
    weights_.push_back(weight);
    ++total_;
  }

  // Closes the chunk; what stands behind place `keep` moves to the next one.
  void close(size_t keep = kNone) {
    keep = std::min(keep, tokens_.size());
    Chunk chunk = empty_chunk(pad_);
    std::copy_n(tokens_.begin(), keep, chunk.tokens.begin() + 1);
    std::copy_n(weights_.begin(), keep, chunk.weights.begin() + 1);
    chunk.end = keep + 1;
    if (keep > 0) chunk.tokens[1 + keep] = kClipEnd;
    chunks_.push_back(std::move(chunk));
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(keep));
    weights_.erase(weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(keep));
  }

  PromptChunks take() {
    if (!tokens_.empty() || chunks_.empty()) close();
    return {std::move(chunks_), total_, 0};
  }

 private:
  int32_t pad_;
  size_t total_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<float> weights_;
  std::vector<Chunk> chunks_;
};

// Pieces of `text` between spaces and line ends.
template <class Visit>
void for_each_word(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    if (end > at) visit(text.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

Chunk empty_chunk(int32_t pad) {
  Chunk chunk{std::vector<int32_t>(kChunkTokens, pad), std::vector<float>(kChunkTokens, 1.0f), 1};
  chunk.tokens[0] = kClipStart;
  chunk.tokens[1] = kClipEnd;
  return chunk;
}

PromptChunks chunk_a1111(const ClipTokenizer& tokenizer, std::span<const WeightedText> pieces, ClipCleaning cleaning,
                         int32_t pad) {
  constexpr size_t kCommaBacktrack = 20;
  Filler filler(pad);
  size_t last_comma = kNone;
  for (const WeightedText& piece : pieces) {
    if (piece.is_break) {
      filler.close();
      last_comma = kNone;
      continue;
    }
    const float weight = checked_weight(piece);
    for (int32_t token : tokenizer.encode(piece.text, cleaning)) {
      if (token == kClipComma) {
        last_comma = filler.used();
      } else if (filler.full() && last_comma != kNone && filler.used() - last_comma <= kCommaBacktrack) {
        filler.close(last_comma + 1);
        last_comma = kNone;
      }
      if (filler.full()) {
        filler.close();
        last_comma = kNone;
      }
      filler.add(token, weight);
    }
  }
  return filler.take();
}

PromptChunks chunk_comfyui(const ClipTokenizer& tokenizer, std::span<const WeightedText> pieces, ClipCleaning cleaning,
                           int32_t pad) {
  constexpr size_t kLongWord = 8;
  Filler filler(pad);
  for (const WeightedText& piece : pieces) {
    const float weight = checked_weight(piece);
    for_each_word(piece.text, [&](std::string_view word) {
      const std::vector<int32_t> tokens = tokenizer.encode(word, cleaning);
      if (tokens.size() < kLongWord && filler.used() + tokens.size() > kChunkPlaces) filler.close();
      for (int32_t token : tokens) {
        if (filler.full()) filler.close();
        filler.add(token, weight);
      }
    });
  }
  return filler.take();
}

PromptChunks chunk_truncated(const ClipTokenizer& tokenizer, std::string_view text, ClipCleaning cleaning,
                             int32_t pad) {
  check_prompt_size(text);
  std::vector<int32_t> tokens;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = pad == kPadZero ? std::min(text.find('!', at), text.size()) : text.size();
    const std::vector<int32_t> piece = tokenizer.encode(text.substr(at, end - at), cleaning);
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    if (end < text.size()) tokens.push_back(kPadZero);
    at = end + 1;
  }
  Filler filler(pad);
  for (size_t i = 0; i < tokens.size() && !filler.full(); ++i) filler.add(tokens[i], 1.0f);
  PromptChunks result = filler.take();
  result.cut = tokens.size() - result.tokens;
  result.tokens = tokens.size();
  return result;
}

void pad_to_same_length(PromptChunks& positive, PromptChunks& negative, int32_t pad) {
  PromptChunks& shorter = positive.chunks.size() < negative.chunks.size() ? positive : negative;
  shorter.chunks.resize(std::max(positive.chunks.size(), negative.chunks.size()), empty_chunk(pad));
}

}  // namespace danqing
