#include "pipeline/conditioning.h"

#include <algorithm>
#include <cmath>

namespace danqing {

std::vector<int32_t> token_ids(const Job& job, size_t e) {
  std::vector<int32_t> ids;
  const auto append = [&](const Chunk& chunk) { ids.insert(ids.end(), chunk.tokens.begin(), chunk.tokens.end()); };
  for (const PromptChunks& prompt : job.chunks[e]) std::ranges::for_each(prompt.chunks, append);
  const TextEncoder& encoder = job.model->text[e];
  if (static_cast<int64_t>(ids.size()) < job.canvas.text_rows * encoder.clip.positions)
    append(empty_chunk(encoder.padding));
  return ids;
}

std::vector<int32_t> end_rows(const Job& job, size_t e) {
  std::vector<int32_t> rows;
  size_t text = 0;
  for (const PromptChunks& prompt : job.chunks[e]) {
    rows.push_back(static_cast<int32_t>(text * kChunkTokens + prompt.chunks.front().end));
    text += prompt.chunks.size();
  }
  return rows;
}

void weigh_states(const Job& job, size_t e, std::span<float> states) {
  const int64_t width = job.model->text[e].clip.width;
  const size_t chunk = kChunkTokens * static_cast<size_t>(width);
  size_t at = 0, used = 0;
  for (const PromptChunks& prompt : job.chunks[e]) used += prompt.chunks.size() * chunk;
  const auto empty = states.subspan(used);
  for (const PromptChunks& prompt : job.chunks[e]) {
    std::vector<float> weights;
    for (const Chunk& c : prompt.chunks) weights.insert(weights.end(), c.weights.begin(), c.weights.end());
    const auto rows = states.subspan(at, prompt.chunks.size() * chunk);
    at += rows.size();
    if (std::ranges::any_of(weights, [](float w) { return w != 1; }))
      apply_emphasis(job.habits.emphasis, rows, weights, width, kChunkTokens, empty);
  }
}

void put_beside(std::span<const float> states, int64_t width, std::span<float> context, int64_t all, int64_t first) {
  const auto w = static_cast<size_t>(width), stride = static_cast<size_t>(all), begin = static_cast<size_t>(first);
  for (size_t row = 0; row < context.size() / stride; ++row)
    std::ranges::copy(states.subspan(row * w, w), context.begin() + static_cast<std::ptrdiff_t>(row * stride + begin));
}

std::array<float, 6> size_numbers(const Request& r) {
  const auto size = [&](const std::string& text, const char* flag) {
    return text.empty() ? std::pair(*r.width, *r.height) : parse_pair(text, flag);
  };
  const auto [width, height] = size(r.original_size, "--original-size");
  const auto [target_width, target_height] = size(r.target_size, "--target-size");
  const auto [left, top] = r.crop.empty() ? std::pair(0, 0) : parse_pair(r.crop, "--crop");
  std::array<float, 6> numbers;
  std::ranges::copy(std::array{height, width, top, left, target_height, target_width}, numbers.begin());
  return numbers;
}

void write_label(std::span<const float> pooled, const std::array<float, 6>& numbers, std::span<float> row) {
  std::ranges::copy(pooled, row.begin());
  const size_t dim = (row.size() - pooled.size()) / numbers.size(), half = dim / 2;
  for (size_t n = 0; n < numbers.size(); ++n)
    for (size_t i = 0; i < half; ++i) {
      const double angle =
          numbers[n] * std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(half));
      float* at = &row[pooled.size() + n * dim + i];
      at[0] = static_cast<float>(std::cos(angle)), at[half] = static_cast<float>(std::sin(angle));
    }
}

}  // namespace danqing
