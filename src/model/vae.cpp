#include "model/vae.h"

namespace danqing {

namespace {

Value norm_silu(const Build& b, Value x, const std::string& name, int groups) {
  return b.silu(b.group_norm(x, name, groups, 1e-6f));
}

Value residual_block(const Build& b, Value x, int64_t channels, int groups) {
  Value h = b.conv(norm_silu(b, x, "norm1", groups), "conv1", channels, 3);
  h = b.conv(norm_silu(b, h, "norm2", groups), "conv2", channels, 3);
  const Value skip = b.shape(x).back() == channels ? x : b.linear(x, "nin_shortcut", channels);
  return b.add(h, skip);
}

Value attention_block(const Build& b, Value x, int groups) {
  const Shape s = b.shape(x);
  const int64_t c = s.back();
  const Value h = b.reshape(b.group_norm(x, "norm", groups, 1e-6f), {s[0], s[1] * s[2], c});
  const Value a = b.attention(b.linear(h, "q", c), b.linear(h, "k", c), b.linear(h, "v", c), 1, 1);
  return b.add(b.reshape(b.linear(a, "proj_out", c), s), x);
}

Value middle(const Build& b, Value x, int groups) {
  const int64_t c = b.shape(x).back();
  x = residual_block(b["block_1"], x, c, groups);
  x = attention_block(b["attn_1"], x, groups);
  return residual_block(b["block_2"], x, c, groups);
}

}  // namespace

Graph vae_decode(const VaeConfig& c, Shape latent, Precision precision, const std::string& scope) {
  Graph graph;
  const Build root = Build(graph, precision)[scope], b = root["decoder"];
  Value x = root.input("latent", {DType::f32, latent});
  x = root.cast(root.scale(x, static_cast<float>(1 / c.scale), static_cast<float>(c.shift)), precision.activations);
  if (c.quant_conv) x = root.linear(x, "post_quant_conv", c.latent_channels);
  x = middle(b["mid"], b.conv(x, "conv_in", c.channels.back(), 3), c.groups);
  for (size_t l = c.channels.size(); l-- > 0;) {
    const Build level = b["up"][static_cast<int>(l)];
    for (int i = 0; i <= c.blocks; ++i) x = residual_block(level["block"][i], x, c.channels[l], c.groups);
    if (l > 0) x = level.upsample_conv(x, "upsample.conv", c.channels[l]);
  }
  x = b.conv(norm_silu(b, x, "norm_out", c.groups), "conv_out", 3, 3);
  root.output("picture", root.cast(x, DType::f32));
  return graph;
}

Graph vae_encode(const VaeConfig& c, Shape picture, Precision precision, const std::string& scope) {
  Graph graph;
  const Build root = Build(graph, precision)[scope], b = root["encoder"];
  Value x = root.cast(root.input("original", {DType::f32, picture}), precision.activations);
  x = b.conv(x, "conv_in", c.channels.front(), 3);
  for (size_t l = 0; l < c.channels.size(); ++l) {
    const Build level = b["down"][static_cast<int>(l)];
    for (int i = 0; i < c.blocks; ++i) x = residual_block(level["block"][i], x, c.channels[l], c.groups);
    if (l + 1 < c.channels.size()) x = level.conv(x, "downsample.conv", c.channels[l], 3, 2, 0, 1);
  }
  x = norm_silu(b, middle(b["mid"], x, c.groups), "norm_out", c.groups);
  x = b.conv(x, "conv_out", 2 * c.latent_channels, 3);
  if (c.quant_conv) x = root.linear(x, "quant_conv", 2 * c.latent_channels);
  root.output("moments", root.cast(x, DType::f32));
  return graph;
}

}  // namespace danqing
