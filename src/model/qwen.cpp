#include "model/qwen.h"

#include "model/rope.h"
#include "model/sections.h"

namespace danqing {

namespace {

Value self_attention(const Build& b, Value x, Value rope, const QwenConfig& c, std::span<const int64_t> lengths) {
  const int64_t tokens = b.shape(x)[1];
  const auto project = [&](const char* name, int heads) { return b.linear(x, name, heads * c.head_size, false); };
  const auto placed = [&](Value v, const char* norm, int heads) {
    v = b.rms_norm(b.reshape(v, {1, tokens, heads, c.head_size}), norm, c.eps);
    return b.rope(b.reshape(v, {1, tokens, heads * c.head_size}), rope, true);
  };
  const Value q = placed(project("q_proj", c.heads), "q_norm", c.heads);
  const Value k = placed(project("k_proj", c.kv_heads), "k_norm", c.kv_heads);
  const Value a = attend_within(b, q, k, project("v_proj", c.kv_heads), lengths, c.heads, c.kv_heads, true);
  return b.linear(a, "o_proj", c.width, false);
}

Value feed_forward(const Build& b, Value x, const QwenConfig& c) {
  const Value gate = b.silu(b.linear(x, "gate_proj", c.hidden, false));
  return b.linear(b.mul(gate, b.linear(x, "up_proj", c.hidden, false)), "down_proj", c.width, false);
}

}  // namespace

Value qwen_text(const Build& root, Value ids, Value rope, const QwenConfig& c, std::span<const int64_t> lengths) {
  const Build b = root["model"];
  Value x = b.embedding(ids, b.matrix("embed_tokens.weight", {c.vocabulary, c.width}));
  x = b.cast(x, b.precision().activations);
  for (int i = 0; i + 1 < c.layers; ++i) {
    const Build layer = b["layers"][i];
    x = layer.add(self_attention(layer["self_attn"], layer.rms_norm(x, "input_layernorm", c.eps), rope, c, lengths), x);
    x = layer.add(feed_forward(layer["mlp"], layer.rms_norm(x, "post_attention_layernorm", c.eps), c), x);
  }
  return x;
}

std::vector<float> qwen_rope(const QwenConfig& c, std::span<const int64_t> lengths) {
  std::vector<int64_t> positions;
  for (const int64_t length : lengths)
    for (int64_t i = 0; i < length; ++i) positions.push_back(i);
  const RopeAxis axis{c.head_size, positions};
  return rope_table({&axis, 1}, c.theta, true);
}

}  // namespace danqing
