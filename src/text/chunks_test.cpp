#include "text/chunks.h"

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

const ClipTokenizer& tokenizer() {
  static const ClipTokenizer loaded(tokenizer_data());
  return loaded;
}

PromptChunks a1111(const std::string& text, int32_t pad = kPadEnd) {
  return chunk_a1111(tokenizer(), parse_a1111(text), ClipCleaning::plain, pad);
}

PromptChunks comfyui(const std::string& text, int32_t pad = kPadEnd) {
  return chunk_comfyui(tokenizer(), parse_comfyui(text), ClipCleaning::plain, pad);
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Chunks, EqualA1111OnEveryGoldenPrompt) {
  DANQING_NEEDS_GOLDEN("conditioning/a1111.safetensors");
  const GoldenTensors tensors(golden("conditioning/a1111.safetensors"));
  const auto cases = read_json(golden("conditioning/a1111.json")).at("cases");
  ASSERT_EQ(cases.size(), 19u);
  for (const auto& entry : cases) {
    const std::string name = std::to_string(entry.at("i").get<int>());
    SCOPED_TRACE(name + ": " + entry.at("text").get<std::string>());
    std::vector<double> tokens, weights;
    for (const Chunk& chunk : a1111(entry.at("text")).chunks) {
      tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      weights.insert(weights.end(), chunk.weights.begin(), chunk.weights.end());
    }
    EXPECT_EQ(tokens, tensors.get(name + "/tokens"));
    std::vector<double> wanted = tensors.get(name + "/weights");
    for (double& weight : wanted) weight = static_cast<float>(weight);
    EXPECT_EQ(weights, wanted);
  }
}

TEST(Chunks, TruncateAsDiffusersDoes) {
  DANQING_NEEDS_GOLDEN("tokenizer/clip.json");
  const auto cases = read_json(golden("tokenizer/clip.json")).at("cases");
  for (const auto& entry : cases) {
    const std::string text = entry.at("text");
    SCOPED_TRACE(text.substr(0, 60));
    const PromptChunks end = chunk_truncated(tokenizer(), text, ClipCleaning::plain, kPadEnd);
    ASSERT_EQ(end.chunks.size(), 1u);
    EXPECT_EQ(end.chunks[0].tokens, entry.at("sd15").get<std::vector<int32_t>>());
    const PromptChunks zero = chunk_truncated(tokenizer(), text, ClipCleaning::plain, kPadZero);
    EXPECT_EQ(zero.chunks[0].tokens, entry.at("sdxl2").get<std::vector<int32_t>>());
    const size_t all = entry.at("untruncated").size();
    EXPECT_EQ(end.cut, all > kChunkTokens ? all - kChunkTokens : 0);
    EXPECT_EQ(end.tokens, all - 2);
  }
}

TEST(Chunks, CountAtTheEdges) {
  const int counts[][2] = {{0, 1}, {75, 1}, {76, 2}, {150, 2}, {151, 3}, {225, 3}, {226, 4}};
  for (const auto& [words, chunks] : counts) {
    EXPECT_EQ(a1111(repeated("a ", words)).chunks.size(), static_cast<size_t>(chunks)) << words;
    EXPECT_EQ(comfyui(repeated("a ", words)).chunks.size(), static_cast<size_t>(chunks)) << words;
  }
}

TEST(Chunks, PadWithZeroBehindTheEnd) {
  const Chunk chunk = a1111("an astronaut riding a horse on Mars", kPadZero).chunks[0];
  const std::vector<int32_t> head = {49406, 550, 18376, 6765, 320, 4558, 525, 7496, 49407, 0, 0};
  EXPECT_EQ(std::vector<int32_t>(chunk.tokens.begin(), chunk.tokens.begin() + 11), head);
  EXPECT_EQ(chunk.tokens.back(), 0);
  EXPECT_EQ(chunk.end, 8u);
  EXPECT_EQ(a1111("a <|endoftext|> b", kPadZero).chunks[0].end, 4u);
  EXPECT_EQ(a1111(repeated("a ", 75), kPadZero).chunks[0].end, 76u);
  EXPECT_EQ(a1111("", kPadZero).chunks[0].tokens, empty_chunk(kPadZero).tokens);
}

TEST(Chunks, MakeBothPromptsEquallyLong) {
  PromptChunks positive = a1111(repeated("a ", 160)), negative = a1111("");
  pad_to_same_length(positive, negative, kPadEnd);
  EXPECT_EQ(negative.chunks.size(), 3u);
  EXPECT_EQ(negative.chunks[2].tokens, empty_chunk(kPadEnd).tokens);
  PromptChunks one = a1111("a");
  pad_to_same_length(one, positive, kPadEnd);
  EXPECT_EQ(one.chunks.size(), 3u);
  EXPECT_EQ(positive.chunks.size(), 3u);
}

TEST(Chunks, BreakInsideBracketsBreaks) {
  const PromptChunks chunks = a1111("(a BREAK b:1.2)");
  ASSERT_EQ(chunks.chunks.size(), 2u);
  EXPECT_EQ(chunks.chunks[1].tokens[1], 321);
  EXPECT_EQ(chunks.chunks[1].weights[1], 1.2f);
  EXPECT_EQ(a1111("a\nBREAK\nb").chunks.size(), 2u);
  EXPECT_EQ(a1111("BREAK").chunks.size(), 1u);
}

TEST(Chunks, ComfyuiKeepsShortWordsTogether) {
  const std::string word = "photo_of_a";  // 5 tokens
  ASSERT_EQ(tokenizer().encode(word, ClipCleaning::plain).size(), 5u);
  const PromptChunks moved = comfyui(repeated("a ", 72) + "(" + word + ":1.5)");
  ASSERT_EQ(moved.chunks.size(), 2u);
  EXPECT_EQ(moved.chunks[0].end, 73u);
  EXPECT_EQ(moved.chunks[1].tokens[1], 1125);
  EXPECT_EQ(moved.chunks[1].weights[1], 1.5f);
  EXPECT_EQ(moved.chunks[1].weights[6], 1.0f);
  const PromptChunks split = comfyui(repeated("a ", 72) + repeated("photo_of_a", 2));  // 10 tokens: long
  EXPECT_EQ(split.chunks[0].end, 76u);
  EXPECT_EQ(comfyui("").chunks[0].tokens, empty_chunk(kPadEnd).tokens);
}

TEST(Chunks, RefuseAWeightBeyondFloat) { EXPECT_THROW(a1111("(a:1" + std::string(60, '0') + ")"), Error); }

}  // namespace
}  // namespace danqing
