// The reference file holds no embedding before emphasis, but enough to recover it: the encoder is causal, so the row of
// the start token is the same in every chunk, and its ratio to that of the empty prompt is the scale that restored the
// mean.
#include "text/emphasis.h"

#include <cmath>

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

constexpr size_t kWidth = 8, kRows = 77;

double scale_of_chunk(const std::vector<double>& embedding, const std::vector<double>& empty, size_t row) {
  double dot = 0, square = 0;
  for (size_t i = 0; i < kWidth; ++i) {
    dot += embedding[row * kWidth + i] * empty[i];
    square += empty[i] * empty[i];
  }
  return dot / square;
}

bool has_zero(const std::vector<double>& weights) {
  return std::find(weights.begin(), weights.end(), 0.0) != weights.end();
}

// Undoes the emphasis of the reference and applies ours.
void compare(const GoldenTensors& tensors, const std::string& name, const std::string& kind, Emphasis emphasis,
             double over_scale) {
  SCOPED_TRACE(name + "/" + kind);
  const std::vector<double> wanted = tensors.get(name + "/" + kind), empty = tensors.get("0/" + kind);
  const std::vector<double> weights = tensors.get(name + "/weights");
  std::vector<float> raw(wanted.begin(), wanted.end());
  double largest = 0;
  for (size_t row = 0; row < weights.size(); ++row) {
    const double scale = emphasis == Emphasis::original ? scale_of_chunk(wanted, empty, row / kRows * kRows) : 1;
    for (size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      raw[i] = static_cast<float>(wanted[i] / weights[row] / scale);
      largest = std::max(largest, std::abs(wanted[i]));
    }
  }
  const std::vector<float> weight(weights.begin(), weights.end());
  apply_emphasis(emphasis, raw, weight, kWidth, kRows);
  double worst = 0;
  for (size_t i = 0; i < raw.size(); ++i) worst = std::max(worst, std::abs(raw[i] - wanted[i]));
  EXPECT_LE(worst, std::max(8 * over_scale, 1e-5) * largest);
}

TEST(Emphasis, EqualsA1111) {
  DANQING_NEEDS_GOLDEN("conditioning/a1111.safetensors");
  const GoldenTensors tensors(golden("conditioning/a1111.safetensors"));
  const auto cases = read_json(golden("conditioning/a1111.json")).at("cases");
  int compared = 0;
  for (const auto& entry : cases) {
    const std::string name = std::to_string(entry.at("i").get<int>());
    if (has_zero(tensors.get(name + "/weights"))) continue;  // what a zero erased is not to be had back
    const double over_scale = entry.at("f32_vs_f64_over_scale");
    compare(tensors, name, "sd15", Emphasis::original, over_scale);
    compare(tensors, name, "pad0_skip2_raw", Emphasis::original, over_scale);
    compare(tensors, name, "sd15_skip2_nonorm", Emphasis::no_norm, over_scale);
    ++compared;
  }
  EXPECT_EQ(compared, 18);
}

TEST(Emphasis, RestoresTheMeanChunkByChunk) {
  std::vector<float> z = {1, 3, 5, 7};  // two chunks of two tokens, width 1
  apply_emphasis(Emphasis::original, z, std::vector<float>{1, 2, 1, 1}, 1, 2);
  EXPECT_FLOAT_EQ(z[0], 1 * 4 / 7.0f);
  EXPECT_FLOAT_EQ(z[1], 6 * 4 / 7.0f);
  EXPECT_EQ(z[2], 5);
  EXPECT_EQ(z[3], 7);
}

TEST(Emphasis, LeavesOutAScaleThatIsNotFinite) {
  std::vector<float> z = {1, 3};
  apply_emphasis(Emphasis::original, z, std::vector<float>{0, 0}, 1, 2);
  EXPECT_EQ(z, (std::vector<float>{0, 0}));
}

TEST(Emphasis, NoneAndNoNorm) {
  std::vector<float> z = {1, 3};
  apply_emphasis(Emphasis::none, z, std::vector<float>{2, 3}, 1, 2);
  EXPECT_EQ(z, (std::vector<float>{1, 3}));
  apply_emphasis(Emphasis::no_norm, z, std::vector<float>{2, 3}, 1, 2);
  EXPECT_EQ(z, (std::vector<float>{2, 9}));
}

TEST(Emphasis, InterpolatesFromTheEmptyPromptInEveryChunk) {
  std::vector<float> z = {1, 2, 3, 4, 5, 6, 7, 8};  // two chunks of two tokens, width 2
  const std::vector<float> empty = {0, 1, 2, 2};
  apply_emphasis(Emphasis::interpolation, z, std::vector<float>{1, 2, 0.5f, 0}, 2, 2, empty);
  EXPECT_EQ(z, (std::vector<float>{1, 2, 4, 6, 2.5f, 3.5f, 2, 2}));
}

TEST(Emphasis, SizesThatDoNotFitAreABug) {
  std::vector<float> z(4);
  EXPECT_THROW(apply_emphasis(Emphasis::no_norm, z, std::vector<float>(3), 1, 2), Bug);
  EXPECT_THROW(apply_emphasis(Emphasis::interpolation, z, std::vector<float>(4), 1, 2), Bug);
}

}  // namespace
}  // namespace danqing
