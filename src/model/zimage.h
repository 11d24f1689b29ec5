// The transformer of Z-Image, parameters as the original names them (fused "attention.qkv").
#pragma once

#include <array>

#include "graph/build.h"

namespace danqing {

struct ZImageConfig {
  int64_t channels = 16, width = 3840, context = 2560;
  int64_t hidden = 10240;                       // of the feed-forward: width * 8 / 3
  int64_t embedding = 256, time_hidden = 1024;  // of the time: min(width, 256)
  int layers = 30, refiners = 2, heads = 30, kv_heads = 30;
  int64_t patch = 2;
  float eps = 1e-5f;
  double theta = 256;
  std::array<int64_t, 3> axes{32, 48, 48};  // of the rotary positions; their sum is a head's size
  int64_t head_size() const { return width / heads; }
  bool operator==(const ZImageConfig&) const = default;
};

inline constexpr int64_t kZImageUnit = 32;  // captions and pictures are padded to multiples of so many learned tokens

// How the evaluations of a request are laid out.
struct ZImageBatch {
  int64_t height = 128, width = 128;  // of the latent; multiples of the patch
  int64_t images = 1;                 // rows evaluated at once
  int64_t halves = 1;                 // evaluations in turn for one step (guidance in turn: 2)
  std::vector<int64_t> captions{32};  // true lengths: of the distinct captions of one evaluation, half after half
  int64_t times = 1;                  // distinct times among the rows of one evaluation; divides images
  int64_t steps = 8;                  // evaluations of one half over the whole request
  int64_t contexts() const { return static_cast<int64_t>(captions.size()) / halves; }  // divides images
};

struct ZImageGraphs {
  Graph once;  // what no step changes: refined captions, modulations of all steps
  Graph each;  // one evaluation
};

// once: in  "timesteps" f32 [steps * times]: 1000 * (1 - sigma), step by step;
//           "captions" f32 [1, sum of the lengths, context], "rope" as below.
// each: in  "noisy" f32 [images, height, width, channels], "rope" f32 [captions, L, 2 * head_size] (zimage_rope),
//           "lengths" i32 [captions] (zimage_lengths) if captions differ in padded length;
//       out "prediction" f32 like noisy: the velocity, noise minus picture (the original's output with its sign
//       changed).
// L: tokens of the picture, then of the longest caption, both padded.
ZImageGraphs zimage(const ZImageConfig&, const ZImageBatch&, Precision, const std::string& scope);

std::vector<float> zimage_rope(const ZImageConfig&, const ZImageBatch&);
std::vector<int32_t> zimage_lengths(const ZImageConfig&, const ZImageBatch&);  // tokens of each sequence; empty: all L

}  // namespace danqing
