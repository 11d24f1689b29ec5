#include "model/clip.h"

#include <algorithm>

namespace danqing {

static Value self_attention(const Build& b, Value x, const ClipConfig& c) {
  const Value q = b.linear(x, "q_proj", c.width), k = b.linear(x, "k_proj", c.width),
              v = b.linear(x, "v_proj", c.width);
  return b.linear(b.attention(q, k, v, c.heads, c.heads, true), "out_proj", c.width);
}

static Value layer(const Build& b, Value x, const ClipConfig& c) {
  x = b.add(self_attention(b["self_attn"], b.layer_norm(x, "layer_norm1"), c), x);
  const Value h = b.unary(b["mlp"].linear(b.layer_norm(x, "layer_norm2"), "fc1", c.hidden), c.activation);
  return b.add(b["mlp"].linear(h, "fc2", c.width), x);
}

// Rows are gathered by what gathers rows of any table.
static Value pooled(const Build& root, Value x, Value ends, const ClipConfig& c) {
  const Shape all = root.shape(x);
  Value rows = root.embedding(ends, root.reshape(x, {all[0] * all[1], c.width}));
  rows = root["text_model"].layer_norm(root.cast(rows, root.precision().activations), "final_layer_norm");
  return root.reshape(root.linear(rows, "text_projection", c.projection, false), {root.shape(ends)[0], c.projection});
}

ClipStates clip_text(const Build& root, Value ids, const ClipConfig& c, const std::vector<ClipOutput>& wishes,
                     std::optional<Value> ends) {
  const Build b = root["text_model"];
  const Build tables = b["embeddings"];
  const Value tokens = b.embedding(ids, tables.matrix("token_embedding.weight", {c.vocabulary, c.width}));
  const Value positions = tables.table("position_embedding.weight", {c.positions, c.width});
  Value x = b.cast(b.add(tokens, positions), b.precision().activations);
  int least = ends ? 1 : c.layers;
  for (const ClipOutput& wish : wishes) {
    DANQING_CHECK(wish.skip >= 1 && wish.skip <= c.layers);
    least = std::min(least, wish.skip);
  }
  ClipStates out;
  out.states.resize(wishes.size());
  for (int i = 0; i <= c.layers - least; ++i) {
    x = layer(b["encoder.layers"][i], x, c);
    for (size_t w = 0; w < wishes.size(); ++w)
      if (c.layers - wishes[w].skip == i)
        out.states[w] = wishes[w].final_norm ? b.layer_norm(x, "final_layer_norm") : x;
  }
  if (ends) out.pooled = pooled(root, x, *ends, c);
  return out;
}

}  // namespace danqing
