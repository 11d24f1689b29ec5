// The picture's tokens come first, then the caption's; pads are learned tokens that take part like all others.
#include "model/zimage.h"

#include <algorithm>
#include <numeric>

#include "model/rope.h"
#include "model/sections.h"

namespace danqing {

namespace {

int64_t padded(int64_t tokens) { return (tokens + kZImageUnit - 1) / kZImageUnit * kZImageUnit; }

struct Tokens {
  int64_t picture, picture_padded, caption;  // caption: of the longest, padded
  int64_t all() const { return picture_padded + caption; }
  Tokens(const ZImageConfig& c, const ZImageBatch& batch)
      : picture(batch.height / c.patch * (batch.width / c.patch)),
        picture_padded(padded(picture)),
        caption(padded(std::ranges::max(batch.captions))) {}
};

bool is_cut(const ZImageBatch& batch) {
  return std::ranges::any_of(batch.captions, [&](int64_t n) { return padded(n) != padded(batch.captions.front()); });
}

// Of one block and all steps, each [steps * times, width].
struct Modulation {
  Value attention_scale, attention_gate, feed_scale, feed_gate;
};

class Writer {
 public:
  Writer(ZImageGraphs& graphs, const ZImageConfig& config, const ZImageBatch& batch, Precision precision,
         const std::string& scope)
      : once_(Build(graphs.once, precision)[scope]),
        each_(Build(graphs.each, precision)[scope]),
        c_(config),
        batch_(batch),
        tokens_(config, batch) {
    for (const int64_t n : batch.captions) padded_captions_.push_back(padded(n));
  }

  void write() {
    embed_time();
    const Value captions = refine_captions();
    open_rope();
    Value x = each_.input("noisy", {DType::f32, {batch_.images, batch_.height, batch_.width, c_.channels}});
    x = each_.patchify(each_.cast(x, each_.precision().activations), c_.patch);
    x = pad(each_, each_.linear(x, "x_embedder", c_.width), "x_pad_token", tokens_.picture_padded);
    const Value picture_rope = each_.rows(rope_, 0, tokens_.picture_padded);
    for (int i = 0; i < c_.refiners; ++i) x = modulated_block("noise_refiner", i, x, picture_rope, {});
    x = each_.concat_rows({x, captions});
    for (int i = 0; i < c_.layers; ++i) x = modulated_block("layers", i, x, rope_, lengths_);
    x = finish(each_.rows(x, 0, tokens_.picture));
    x = each_.unpatchify(x, c_.patch, batch_.height, batch_.width);
    each_.output("prediction", each_.scale(each_.cast(x, DType::f32), -1));
  }

 private:
  int64_t sequences() const { return static_cast<int64_t>(batch_.captions.size()); }

  void embed_time() {
    const Value t = once_.input("timesteps", {DType::f32, {batch_.steps * batch_.times}});
    const Build b = once_["t_embedder.mlp"];
    const Value e = once_.cast(once_.sinusoid(t, 256), once_.precision().activations);
    time_ = b.linear(b.silu(b.linear(e, "0", c_.time_hidden)), "2", c_.embedding);
  }

  // A value of `once` that `each` reads at every step: its row of `each` is picked by the half or the step.
  Value hoist(const std::string& name, Value v) const {
    const std::string full = once_.scope() + "." + name;
    once_.output(full, v);
    return each_.input(full, {once_.dtype(v), once_.shape(v)});
  }
  Value of_half(Value v) const { return batch_.halves > 1 ? each_.select(v, Counter::half, batch_.contexts()) : v; }
  Value of_step(const std::string& name, Value v) const {
    return each_.select(hoist(name, v), Counter::step, batch_.times);
  }

  // x [N, L, C] with learned tokens behind.
  Value pad(const Build& b, Value x, const std::string& token, int64_t length) const {
    const int64_t missing = length - b.shape(x)[1];
    return missing ? b.concat_rows({x, pads(b, token, missing)}) : x;
  }
  Value pads(const Build& b, const std::string& token, int64_t count) const {
    const Value one = b.cast(b.table(token, {1, c_.width}), b.precision().activations);
    return b.reshape(b.repeat(one, {count, 1, c_.width}), {1, count, c_.width});
  }

  // Given by the host to both graphs. `each` takes what belongs to its half.
  void open_rope() {
    const Shape shape{sequences(), tokens_.all(), 2 * c_.head_size()};
    rope_ = of_half(each_.input("rope", {DType::f32, shape}));
    if (is_cut(batch_)) lengths_ = of_half(each_.input("lengths", {DType::i32, {sequences()}}));
  }

  // All captions side by side, each padded to its own multiple; stacked [contexts, longest, C] at the end.
  Value refine_captions() const {
    const int64_t total = std::accumulate(batch_.captions.begin(), batch_.captions.end(), int64_t{0});
    Value x = once_.input("captions", {DType::f32, {1, total, c_.context}});
    x = once_.rms_norm(once_.cast(x, once_.precision().activations), "cap_embedder.0", c_.eps);
    x = once_.linear(x, "cap_embedder.1", c_.width);
    const Value all = once_.reshape(once_.input("rope", {DType::f32, {sequences(), tokens_.all(), 2 * c_.head_size()}}),
                                    {1, sequences() * tokens_.all(), 2 * c_.head_size()});
    const Value pad_token = pads(once_, "cap_pad_token", kZImageUnit + tokens_.caption);
    std::vector<Value> captions, ropes;
    int64_t begin = 0;
    for (size_t i = 0; i < batch_.captions.size(); ++i) {
      captions.push_back(once_.rows(x, begin, begin + batch_.captions[i]));
      if (const int64_t missing = padded_captions_[i] - batch_.captions[i])
        captions.push_back(once_.rows(pad_token, 0, missing));
      const int64_t first = static_cast<int64_t>(i) * tokens_.all() + tokens_.picture_padded;
      ropes.push_back(once_.rows(all, first, first + padded_captions_[i]));
      begin += batch_.captions[i];
    }
    x = once_.concat_rows(std::move(captions));
    const Value rope = once_.concat_rows(std::move(ropes));
    for (int i = 0; i < c_.refiners; ++i) x = plain_block(once_["context_refiner"][i], x, rope);
    return of_half(hoist("captions", stack(x, pad_token)));
  }

  // What stands behind a shorter caption is never looked at.
  Value stack(Value x, Value pad_token) const {
    std::vector<Value> rows;
    int64_t begin = 0;
    for (const int64_t length : padded_captions_) {
      rows.push_back(once_.rows(x, begin, begin + length));
      if (length < tokens_.caption) rows.push_back(once_.rows(pad_token, 0, tokens_.caption - length));
      begin += length;
    }
    return once_.reshape(once_.concat_rows(std::move(rows)), {sequences(), tokens_.caption, c_.width});
  }

  struct Projected {
    Value q, k, v;
  };
  Projected project(const Build& b, Value x, Value rope) const {
    const int64_t d = c_.head_size(), q_rows = c_.heads * d, kv_rows = c_.kv_heads * d, total = q_rows + 2 * kv_rows;
    const auto part = [&](int64_t begin, int64_t count) {
      return b.linear_rows(x, "qkv", total, begin, begin + count, false);
    };
    const auto placed = [&](Value v, const char* norm) {
      const Shape s = b.shape(v);
      v = b.rms_norm(b.reshape(v, {s[0], s[1], s[2] / d, d}), norm, 1e-5f);
      return b.rope(b.reshape(v, s), rope, false);
    };
    return {placed(part(0, q_rows), "q_norm"), placed(part(q_rows, kv_rows), "k_norm"),
            part(q_rows + kv_rows, kv_rows)};
  }

  Value feed_forward(const Build& b, Value x) const {
    const Value gate = b.silu(b.linear(x, "w1", c_.hidden, false));
    return b.linear(b.mul(gate, b.linear(x, "w3", c_.hidden, false)), "w2", c_.width, false);
  }

  Value plain_block(const Build& b, Value x, Value rope) const {
    const Build attention = b["attention"];
    const Projected p = project(attention, b.rms_norm(x, "attention_norm1", c_.eps), rope);
    Value h = attend_within(attention, p.q, p.k, p.v, padded_captions_, c_.heads, c_.kv_heads, false);
    x = b.add(b.rms_norm(attention.linear(h, "out", c_.width, false), "attention_norm2", c_.eps), x);
    h = feed_forward(b["feed_forward"], b.rms_norm(x, "ffn_norm1", c_.eps));
    return b.add(b.rms_norm(h, "ffn_norm2", c_.eps), x);
  }

  Modulation modulation(const std::string& block) const {
    const Build b = once_[block];
    const Value all = b.linear(time_, "adaLN_modulation.0", 4 * c_.width);
    const auto part = [&](int i) { return b.slice(all, i * c_.width, (i + 1) * c_.width); };
    const auto scale = [&](const char* name, int i) { return of_step(block + name, b.scale(part(i), 1, 1)); };
    const auto gate = [&](const char* name, int i) {
      return of_step(block + name, b.unary(part(i), Activation::tanh));
    };
    return {scale(".attention_scale", 0), gate(".attention_gate", 1), scale(".feed_scale", 2), gate(".feed_gate", 3)};
  }

  Value modulated_block(const std::string& list, int i, Value x, Value rope, std::optional<Value> lengths) const {
    const std::string block = list + "." + std::to_string(i);
    const Modulation m = modulation(block);
    const Build b = each_[block], attention = b["attention"];
    const auto scaled = [&](const char* norm, Value scale) { return b.modulate(b.rms_norm(x, norm, c_.eps), scale); };
    const Projected p = project(attention, scaled("attention_norm1", m.attention_scale), rope);
    Value h = attention.attention(p.q, p.k, p.v, c_.heads, c_.kv_heads, false, lengths);
    h = b.rms_norm(attention.linear(h, "out", c_.width, false), "attention_norm2", c_.eps);
    x = b.modulate_add(h, m.attention_gate, x);
    h = b.rms_norm(feed_forward(b["feed_forward"], scaled("ffn_norm1", m.feed_scale)), "ffn_norm2", c_.eps);
    return b.modulate_add(h, m.feed_gate, x);
  }

  Value finish(Value x) const {
    const Build b = once_["final_layer"];
    const Value scale = b.scale(b.linear(b.silu(time_), "adaLN_modulation.1", c_.width), 1, 1);
    x = each_.modulate(each_.layer_norm_plain(x, 1e-6f), of_step("final_layer.scale", scale));
    return each_["final_layer"].linear(x, "linear", c_.patch * c_.patch * c_.channels);
  }

  Build once_, each_;
  const ZImageConfig& c_;
  const ZImageBatch& batch_;
  Tokens tokens_;
  std::vector<int64_t> padded_captions_;
  Value time_, rope_;
  std::optional<Value> lengths_;
};

}  // namespace

ZImageGraphs zimage(const ZImageConfig& c, const ZImageBatch& batch, Precision precision, const std::string& scope) {
  DANQING_CHECK(batch.height % c.patch == 0 && batch.width % c.patch == 0 && batch.images % batch.times == 0);
  DANQING_CHECK(!batch.captions.empty() && batch.captions.size() % static_cast<size_t>(batch.halves) == 0);
  DANQING_CHECK(batch.images % batch.contexts() == 0 && std::ranges::min(batch.captions) > 0);
  DANQING_CHECK(c.axes[0] + c.axes[1] + c.axes[2] == c.head_size());
  ZImageGraphs graphs;
  Writer(graphs, c, batch, precision, scope).write();
  return graphs;
}

// Captions stand at (1 + i, 0, 0), pads included; a picture's tokens at (padded caption + 1, y, x); its pads at 0.
std::vector<float> zimage_rope(const ZImageConfig& c, const ZImageBatch& batch) {
  const Tokens tokens(c, batch);
  std::array<std::vector<int64_t>, 3> positions;
  for (const int64_t caption : batch.captions) {
    const auto stand = [&](int64_t a, int64_t b, int64_t d) {
      positions[0].push_back(a), positions[1].push_back(b), positions[2].push_back(d);
    };
    for (int64_t y = 0; y < batch.height / c.patch; ++y)
      for (int64_t x = 0; x < batch.width / c.patch; ++x) stand(padded(caption) + 1, y, x);
    for (int64_t i = tokens.picture; i < tokens.picture_padded; ++i) stand(0, 0, 0);
    for (int64_t i = 0; i < tokens.caption; ++i) stand(1 + i, 0, 0);
  }
  std::vector<RopeAxis> axes;
  for (size_t i = 0; i < 3; ++i) axes.push_back({c.axes[i], positions[i]});
  return rope_table(axes, c.theta, false);
}

std::vector<int32_t> zimage_lengths(const ZImageConfig& c, const ZImageBatch& batch) {
  std::vector<int32_t> lengths;
  if (is_cut(batch))
    for (const int64_t caption : batch.captions)
      lengths.push_back(static_cast<int32_t>(Tokens(c, batch).picture_padded + padded(caption)));
  return lengths;
}

}  // namespace danqing
