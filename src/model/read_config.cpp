#include "model/read_config.h"

#include <nlohmann/json.hpp>

namespace danqing {

namespace {

using nlohmann::json;

Shape need(const Layout& layout, const std::string& parameter, int rank) {
  const auto shape = layout.shape_of(parameter);
  const std::string file = layout.checkpoint().path().filename().string();
  if (!shape) throw Error(Fault::file, file + ": \"" + layout.expected_key(parameter) + "\" is missing");
  if (shape->rank() != rank)
    throw Error(Fault::file, file + ": \"" + layout.expected_key(parameter) + "\" is " + to_string(*shape) +
                                 ", the model wants " + std::to_string(rank) + " dimensions");
  return *shape;
}

int count_while(const Layout& layout, const std::string& prefix, const std::string& rest) {
  int n = 0;
  while (n < 1000 && layout.shape_of(prefix + std::to_string(n) + rest)) ++n;
  return n;
}

// Family rules: SDXL and SD 2 project with matrices and have heads of 64; SD 1 projects with 1x1 convolutions, 8 heads.
int heads_for(const UnetConfig& c, int64_t channels) {
  return c.linear_projection ? static_cast<int>(std::max<int64_t>(1, channels / 64)) : 8;
}

UnetLevel level_at(const Layout& layout, const UnetConfig& c, const std::string& block) {
  UnetLevel level;
  level.channels = need(layout, block + ".0.in_layers.2.weight", 4)[0];
  level.depth = count_while(layout, block + ".1.transformer_blocks.", ".norm1.weight");
  level.heads = heads_for(c, level.channels);
  return level;
}

// Reads one value out of a config if it is there; a wrong type or an absurd value names the file and the key.
class Config {
 public:
  Config(const std::string& text, std::string where) : where_(std::move(where)) {
    value_ = json::parse(text, nullptr, false);
    if (!value_.is_object()) throw Error(Fault::file, where_ + ": not a JSON object");
  }

  bool has(const char* key) const { return value_.contains(key) && !value_[key].is_null(); }

  template <class T>
  void read(const char* key, T& into, int64_t least = 1, int64_t most = 1 << 20) const {
    if (has(key)) into = static_cast<T>(integer(value_[key], key, least, most));
  }
  void read(const char* key, double& into) const {
    if (!has(key)) return;
    if (!value_[key].is_number()) fail(key, "a number");
    into = value_[key].get<double>();
  }
  void read(const char* key, bool& into) const {
    if (!has(key)) return;
    if (!value_[key].is_boolean()) fail(key, "true or false");
    into = value_[key].get<bool>();
  }
  std::string text(const char* key) const {
    return has(key) && value_[key].is_string() ? value_[key].get<std::string>() : "";
  }

  // A list, or one number for every entry.
  std::vector<int64_t> list(const char* key, size_t size) const {
    const json& v = value_[key];
    if (!v.is_array()) return std::vector<int64_t>(size, integer(v, key, 1, 1 << 20));
    std::vector<int64_t> out;
    for (const json& item : v) out.push_back(integer(item, key, 1, 1 << 20));
    return out;
  }
  std::vector<std::string> words(const char* key) const {
    std::vector<std::string> out;
    if (has(key) && value_[key].is_array())
      for (const json& item : value_[key])
        if (item.is_string()) out.push_back(item.get<std::string>());
    return out;
  }
  [[noreturn]] void fail(const std::string& key, const std::string& wanted) const {
    throw Error(Fault::file, where_ + ": \"" + key + "\" is not " + wanted);
  }

 private:
  int64_t integer(const json& v, const char* key, int64_t least, int64_t most) const {
    if (!v.is_number_integer() || v.get<int64_t>() < least || v.get<int64_t>() > most)
      fail(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return v.get<int64_t>();
  }

  std::string where_;
  json value_;
};

}  // namespace

ClipConfig clip_from_shapes(const Layout& layout, const std::string& component) {
  ClipConfig c;
  const std::string root = component + ".text_model.";
  const Shape tokens = need(layout, root + "embeddings.token_embedding.weight", 2);
  c.vocabulary = tokens[0], c.width = tokens[1];
  c.positions = need(layout, root + "embeddings.position_embedding.weight", 2)[0];
  c.hidden = need(layout, root + "encoder.layers.0.mlp.fc1.weight", 2)[0];
  c.layers = count_while(layout, root + "encoder.layers.", ".mlp.fc1.weight");
  c.heads = static_cast<int>(std::max<int64_t>(1, c.width / 64));
  if (const auto projection = layout.shape_of(component + ".text_projection.weight");
      projection && projection->rank() == 2)
    c.projection = (*projection)[0];
  return c;
}

UnetConfig unet_from_shapes(const Layout& layout) {
  UnetConfig c;
  const std::string blocks = "unet.input_blocks.";
  c.in_channels = need(layout, blocks + "0.0.weight", 4)[1];
  c.out_channels = need(layout, "unet.out.2.weight", 4)[0];
  const auto projection = layout.shape_of("unet.middle_block.1.proj_in.weight");
  c.linear_projection = projection && projection->rank() == 2;
  c.context = need(layout, "unet.middle_block.1.transformer_blocks.0.attn2.to_k.weight", 2)[1];
  if (const auto label = layout.shape_of("unet.label_emb.0.0.weight"); label && label->rank() == 2)
    c.label = (*label)[1];
  c.blocks = 0;
  int at = 1;
  while (at < 100) {
    if (layout.shape_of(blocks + std::to_string(at) + ".0.op.weight")) {
      if (c.blocks == 0) c.blocks = at - 1;
      ++at;
    }
    if (!layout.shape_of(blocks + std::to_string(at) + ".0.in_layers.2.weight")) break;
    c.levels.push_back(level_at(layout, c, blocks + std::to_string(at)));
    while (layout.shape_of(blocks + std::to_string(at) + ".0.in_layers.2.weight")) ++at;
    if (c.blocks == 0) c.blocks = at - 1;
  }
  if (c.levels.empty()) need(layout, blocks + "1.0.in_layers.2.weight", 4);
  c.middle = {c.levels.back().channels, count_while(layout, "unet.middle_block.1.transformer_blocks.", ".norm1.weight"),
              heads_for(c, c.levels.back().channels)};
  return c;
}

VaeConfig vae_from_shapes(const Layout& layout) {
  VaeConfig c;
  c.latent_channels = need(layout, "vae.decoder.conv_in.weight", 4)[1];
  c.quant_conv = layout.shape_of("vae.post_quant_conv.weight").has_value();
  c.channels.clear();
  const int levels = count_while(layout, "vae.decoder.up.", ".block.0.conv1.weight");
  for (int l = 0; l < levels; ++l)
    c.channels.push_back(need(layout, "vae.decoder.up." + std::to_string(l) + ".block.0.conv1.weight", 4)[0]);
  if (c.channels.empty()) need(layout, "vae.decoder.up.0.block.0.conv1.weight", 4);
  c.blocks = count_while(layout, "vae.decoder.up.0.block.", ".conv1.weight") - 1;
  return c;
}

void apply_config(const std::string& text, const std::string& where, ClipConfig& c) {
  const Config config(text, where);
  config.read("vocab_size", c.vocabulary), config.read("hidden_size", c.width),
      config.read("intermediate_size", c.hidden);
  config.read("num_hidden_layers", c.layers, 1, 200), config.read("num_attention_heads", c.heads, 1, 1024);
  config.read("max_position_embeddings", c.positions), config.read("projection_dim", c.projection, 0);
  const std::string act = config.text("hidden_act");
  if (act == "gelu")
    c.activation = Activation::gelu;
  else if (act == "quick_gelu")
    c.activation = Activation::quick_gelu;
  else if (!act.empty())
    config.fail("hidden_act", "gelu or quick_gelu");
}

void apply_config(const std::string& text, const std::string& where, UnetConfig& c) {
  const Config config(text, where);
  config.read("in_channels", c.in_channels), config.read("out_channels", c.out_channels);
  config.read("cross_attention_dim", c.context), config.read("layers_per_block", c.blocks, 1, 16);
  config.read("norm_num_groups", c.groups), config.read("use_linear_projection", c.linear_projection);
  config.read("projection_class_embeddings_input_dim", c.label);
  if (config.has("block_out_channels")) {
    const std::vector<int64_t> channels = config.list("block_out_channels", 0);
    if (channels.empty() || channels.size() > 8) config.fail("block_out_channels", "a list of 1 to 8 widths");
    c.levels.resize(channels.size());
    for (size_t i = 0; i < channels.size(); ++i) c.levels[i].channels = channels[i];
  }
  const size_t n = c.levels.size();
  const auto per_level = [&](const char* key) {
    std::vector<int64_t> list = config.list(key, n);
    if (list.size() != n) config.fail(key, "one value, or one for each of the " + std::to_string(n) + " levels");
    return list;
  };
  const std::vector<std::string> types = config.words("down_block_types");
  if (!types.empty()) {
    if (types.size() != n) config.fail("down_block_types", "one for each of the " + std::to_string(n) + " levels");
    std::vector<int64_t> depths(n, 1);
    if (config.has("transformer_layers_per_block")) depths = per_level("transformer_layers_per_block");
    for (size_t i = 0; i < n; ++i)
      c.levels[i].depth = types[i].starts_with("CrossAttn") ? static_cast<int>(depths[i]) : 0;
    c.middle.depth = static_cast<int>(depths.back());
  }
  if (config.has("attention_head_dim") ||
      config.has("num_attention_heads")) {  // the first is, in truth, the number of heads
    const auto heads = per_level(config.has("num_attention_heads") ? "num_attention_heads" : "attention_head_dim");
    for (size_t i = 0; i < n; ++i) c.levels[i].heads = static_cast<int>(heads[i]);
    c.middle.heads = static_cast<int>(heads.back());
  }
  c.middle.channels = c.levels.back().channels;
}

void apply_config(const std::string& text, const std::string& where, VaeConfig& c) {
  const Config config(text, where);
  config.read("latent_channels", c.latent_channels, 1, 1024), config.read("layers_per_block", c.blocks, 1, 16);
  config.read("norm_num_groups", c.groups);
  config.read("scaling_factor", c.scale), config.read("shift_factor", c.shift);
  if (config.has("block_out_channels")) c.channels = config.list("block_out_channels", 0);
  if (c.channels.empty() || c.channels.size() > 8) config.fail("block_out_channels", "a list of 1 to 8 widths");
  if (!(c.scale > 0)) config.fail("scaling_factor", "above zero");
}

namespace {

void demand(bool holds, const std::string& where, const std::string& text) {
  if (!holds) throw Error(Fault::file, where + ": " + text);
}

std::string text(int64_t n) { return std::to_string(n); }

void validate_level(const UnetLevel& level, int groups, const std::string& where) {
  demand(
      level.channels > 0 && level.channels % groups == 0, where,
      "the U-Net has a level of " + text(level.channels) + " channels, which " + text(groups) + " groups cannot share");
  demand(level.depth >= 0 && level.depth <= 100, where,
         "the U-Net has " + text(level.depth) + " transformer blocks in a row");
  demand(level.depth == 0 || (level.heads > 0 && level.channels % level.heads == 0), where,
         "the U-Net has a level of " + text(level.channels) + " channels, which " + text(level.heads) +
             " heads cannot share");
}

}  // namespace

void validate(const ClipConfig& c, const std::string& where) {
  demand(
      c.width > 0 && c.hidden > 0 && c.layers >= 1 && c.layers <= 200, where,
      "the text encoder has " + text(c.layers) + " layers of " + text(c.width) + " and " + text(c.hidden) + " values");
  demand(c.heads > 0 && c.width % c.heads == 0, where,
         "the text encoder is " + text(c.width) + " wide, which " + text(c.heads) + " heads cannot share");
  demand(c.positions == 77, where, "the text encoder takes " + text(c.positions) + " tokens, danqing gives it 77");
  demand(c.vocabulary >= 49408, where,
         "the text encoder knows " + text(c.vocabulary) + " tokens, CLIP's tokenizer makes 49408");
}

void validate(const UnetConfig& c, const std::string& where) {
  demand(!c.levels.empty() && c.levels.size() <= 8 && c.blocks >= 1 && c.blocks <= 16, where,
         "the U-Net has " + text(static_cast<int64_t>(c.levels.size())) + " levels of " + text(c.blocks) + " blocks");
  demand(c.in_channels > 0 && c.out_channels > 0 && c.context > 0 && c.groups > 0, where,
         "the U-Net has a size of zero");
  for (const UnetLevel& level : c.levels) validate_level(level, c.groups, where);
  validate_level(c.middle, c.groups, where);
}

void validate(const VaeConfig& c, const std::string& where) {
  demand(!c.channels.empty() && c.channels.size() <= 8 && c.blocks >= 1 && c.blocks <= 16, where,
         "the VAE has " + text(static_cast<int64_t>(c.channels.size())) + " levels of " + text(c.blocks) + " blocks");
  demand(c.latent_channels > 0 && c.groups > 0, where, "the VAE has a size of zero");
  for (int64_t channels : c.channels)
    demand(channels > 0 && channels % c.groups == 0, where,
           "the VAE has a level of " + text(channels) + " channels, which " + text(c.groups) + " groups cannot share");
}

}  // namespace danqing
