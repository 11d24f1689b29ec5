#include "model/unet.h"

namespace danqing {

namespace {

// Writes both graphs in one walk: what depends on no step is computed in `once` and read in `each`.
class Writer {
 public:
  Writer(UnetGraphs& graphs, const UnetConfig& config, const UnetBatch& batch, Precision precision,
         const std::string& scope)
      : once_(Build(graphs.once, precision)[scope]),
        each_(Build(graphs.each, precision)[scope]),
        config_(config),
        batch_(batch) {}

  void write() {
    embed_time();
    context_ = once_.cast(
        once_.input("context", {DType::f32, {batch_.halves * batch_.contexts, batch_.tokens, config_.context}}),
        once_.precision().activations);
    Value x = each_.input("noisy", {DType::f32, {batch_.images, batch_.height, batch_.width, config_.in_channels}});
    x = each_.conv(each_.cast(x, each_.precision().activations), "input_blocks.0.0", config_.model_channels(), 3);
    skips_.push_back(x);
    x = down(x);
    x = middle(x);
    x = up(x);
    x = each_.silu(each_.group_norm(x, "out.0", config_.groups, 1e-5f));
    x = each_.cast(each_.conv(x, "out.2", config_.out_channels, 3), DType::f32);
    each_.output("prediction", x);
  }

 private:
  // Rows of conditioning a step: per-prompt only where the prompt enters it (SDXL's pooled text).
  int64_t rows() const { return config_.label ? batch_.halves * batch_.contexts : 1; }

  void embed_time() {
    const int64_t width = 4 * config_.model_channels();
    const Value t = once_.input("timesteps", {DType::f32, {batch_.steps * rows()}});
    const DType held = once_.precision().activations;
    Value e = mlp("time_embed", once_.cast(once_.sinusoid(t, config_.model_channels()), held), width);
    if (config_.label) {
      const Value label =
          mlp("label_emb.0", once_.cast(once_.input("label", {DType::f32, {rows(), config_.label}}), held), width);
      e = once_.reshape(once_.add(once_.reshape(e, {batch_.steps, rows(), width}), label),
                        {batch_.steps * rows(), width});
    }
    time_ = once_.silu(e);
  }

  Value mlp(const std::string& name, Value x, int64_t width) const {
    const Build b = once_[name];
    return b.linear(b.silu(b.linear(x, "0", width)), "2", width);
  }

  // A value of `once` that `each` reads: carried over under its scope's name.
  Value hoist(const Build& at, const std::string& name, Value v) const {
    const std::string full = at.scope() + "." + name;
    once_.output(full, v);
    return each_.input(full, {once_.dtype(v), once_.shape(v)});
  }

  // The step's time embedding as this residual block wants it: [rows of the batch, channels].
  Value shift(const std::string& block, int64_t channels) const {
    const Build b = once_[block];
    Value v = hoist(b, "shift", b.linear(time_, "emb_layers.1", channels));
    v = each_.select(v, Counter::step, rows());
    return batch_.halves > 1 && rows() > 1 ? each_.select(v, Counter::half, batch_.contexts) : v;
  }

  Value residual_block(const std::string& block, Value x, int64_t channels) const {
    const Build b = each_[block];
    Value h = b.silu(b.group_norm(x, "in_layers.0", config_.groups, 1e-5f));
    h = b.conv(h, "in_layers.2", channels, 3);
    h = b.silu(b.group_norm(h, "out_layers.0", config_.groups, 1e-5f, shift(block, channels)));
    const Value skip = b.shape(x).back() == channels ? x : pointwise(b, x, "skip_connection", channels);
    return b.add(b.conv(h, "out_layers.3", channels, 3), skip);
  }

  // A 1x1 convolution is a matrix product over pixels.
  static Value pointwise(const Build& b, Value x, const std::string& name, int64_t out) {
    return b.linear(x, name, out);
  }

  Value text_rows(const std::string& layer, const std::string& name, int64_t channels) const {
    const Build b = once_[layer];
    const Value v = hoist(b, name, b.linear(context_, name, channels, false));
    return batch_.halves > 1 ? each_.select(v, Counter::half, batch_.contexts) : v;
  }

  Value transformer_block(const std::string& block, Value x, const UnetLevel& level) const {
    const Build b = each_[block];
    const int64_t c = level.channels;
    const auto project = [&](const Build& at, Value h, const char* name) { return at.linear(h, name, c, false); };
    Value h = b.layer_norm(x, "norm1");
    const Build self = b["attn1"], cross = b["attn2"];
    h = self.attention(project(self, h, "to_q"), project(self, h, "to_k"), project(self, h, "to_v"), level.heads,
                       level.heads);
    x = b.add(self.linear(h, "to_out.0", c), x);
    h = project(cross, b.layer_norm(x, "norm2"), "to_q");
    const std::string layer = block + ".attn2";
    h = cross.attention(h, text_rows(layer, "to_k", c), text_rows(layer, "to_v", c), level.heads, level.heads);
    x = b.add(cross.linear(h, "to_out.0", c), x);
    return b.add(feed_forward(b["ff.net"], b.layer_norm(x, "norm3"), c), x);
  }

  static Value feed_forward(const Build& b, Value x, int64_t c) {
    const int64_t hidden = 4 * c;  // GEGLU: the layer's first half is gated by its second
    const Value gate = b.unary(b.linear_rows(x, "0.proj", 2 * hidden, hidden, 2 * hidden), Activation::gelu);
    return b.linear(b.mul(b.linear_rows(x, "0.proj", 2 * hidden, 0, hidden), gate), "2", c);
  }

  Value spatial_transformer(const std::string& block, Value x, const UnetLevel& level) const {
    const Build b = each_[block];
    const Shape picture = b.shape(x);
    Value h = b.group_norm(x, "norm", config_.groups, 1e-6f);
    h = pointwise(b, h, "proj_in", level.channels);
    h = b.reshape(h, {picture[0], picture[1] * picture[2], level.channels});
    for (int i = 0; i < level.depth; ++i)
      h = transformer_block(block + ".transformer_blocks." + std::to_string(i), h, level);
    h = b.reshape(h, picture);
    return b.add(pointwise(b, h, "proj_out", level.channels), x);
  }

  Value down(Value x) {
    int index = 1;
    for (size_t l = 0; l < config_.levels.size(); ++l) {
      const UnetLevel& level = config_.levels[l];
      for (int i = 0; i < config_.blocks; ++i, ++index) {
        const std::string block = "input_blocks." + std::to_string(index);
        x = residual_block(block + ".0", x, level.channels);
        if (level.depth) x = spatial_transformer(block + ".1", x, level);
        skips_.push_back(x);
      }
      if (l + 1 == config_.levels.size()) break;
      x = each_.conv(x, "input_blocks." + std::to_string(index++) + ".0.op", level.channels, 3, 2, 1, 1);
      skips_.push_back(x);
    }
    return x;
  }

  Value middle(Value x) const {
    const UnetLevel& level = config_.middle;
    x = residual_block("middle_block.0", x, level.channels);
    if (level.depth) x = spatial_transformer("middle_block.1", x, level);
    return residual_block("middle_block.2", x, level.channels);
  }

  Value up(Value x) {
    int index = 0;
    for (size_t l = config_.levels.size(); l-- > 0;) {
      const UnetLevel& level = config_.levels[l];
      for (int i = 0; i <= config_.blocks; ++i, ++index) {
        const std::string block = "output_blocks." + std::to_string(index);
        x = each_.concat(x, skips_.back());
        skips_.pop_back();
        x = residual_block(block + ".0", x, level.channels);
        if (level.depth) x = spatial_transformer(block + ".1", x, level);
        if (i == config_.blocks && l > 0) x = grow(block + (level.depth ? ".2.conv" : ".1.conv"), x, level.channels);
      }
    }
    return x;
  }

  // To the size of the skip connection that comes next: twice, or one less where a side was odd.
  Value grow(const std::string& name, Value x, int64_t channels) const {
    const Shape &from = each_.shape(x), &to = each_.shape(skips_.back());
    if (to[1] == 2 * from[1] && to[2] == 2 * from[2]) return each_.upsample_conv(x, name, channels);
    return each_.conv(each_.upsample(x, to[1], to[2]), name, channels, 3);
  }

  Build once_, each_;
  const UnetConfig& config_;
  const UnetBatch& batch_;
  Value context_, time_;
  std::vector<Value> skips_;
};

}  // namespace

UnetGraphs unet(const UnetConfig& config, const UnetBatch& batch, Precision precision, const std::string& scope) {
  DANQING_CHECK(batch.images % batch.contexts == 0);
  UnetGraphs graphs;
  Writer(graphs, config, batch, precision, scope).write();
  return graphs;
}

}  // namespace danqing
