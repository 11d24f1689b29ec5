// Qwen3 as a text encoder: the state after the layer before the last, without the final norm; neither that norm nor the
// last layer nor the head is built. Parameters as transformers' Qwen3ForCausalLM names them ("model.layers.0...").
#pragma once

#include <span>

#include "graph/build.h"

namespace danqing {

struct QwenConfig {
  int64_t vocabulary = 151936, width = 2560, hidden = 9728;
  int layers = 36, heads = 32, kv_heads = 8;
  int64_t head_size = 128;
  float eps = 1e-6f;
  double theta = 1e6;
  bool operator==(const QwenConfig&) const = default;
};

// ids i32 [1, T]: texts of these lengths one after another, each at its true length. rope f32 [1, T, 2 * head_size]
// from qwen_rope. The result is [1, T, width] in the activations' dtype.
Value qwen_text(const Build&, Value ids, Value rope, const QwenConfig&, std::span<const int64_t> lengths);

std::vector<float> qwen_rope(const QwenConfig&, std::span<const int64_t> lengths);

}  // namespace danqing
