#include "model/diffusers_names.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace danqing {

namespace {

using Renames = std::initializer_list<std::pair<std::string_view, std::string_view>>;

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts{""};
  for (char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string join(const std::vector<std::string>& parts, size_t from) {
  std::string text;
  for (size_t i = from; i < parts.size(); ++i) text += (i > from ? "." : "") + parts[i];
  return text;
}

int number(const std::string& text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Replaces the longest listed prefix, at a dot.
std::string renamed(const std::string& name, Renames renames) {
  for (auto [from, to] : renames)
    if (name.starts_with(from) && (name.size() == from.size() || name[from.size()] == '.'))
      return std::string(to) + name.substr(from.size());
  return name;
}

std::string resnet(const std::string& rest) {
  return renamed(rest, {{"in_layers.0", "norm1"},
                        {"in_layers.2", "conv1"},
                        {"emb_layers.1", "time_emb_proj"},
                        {"out_layers.0", "norm2"},
                        {"out_layers.3", "conv2"},
                        {"skip_connection", "conv_shortcut"}});
}

// The inside of block `index` of one side: part 0 is the residual block, then attention and resampling.
std::string block(const std::string& side, int level, int index, const std::vector<std::string>& parts, size_t at,
                  const std::string& sampler) {
  const std::string rest = join(parts, at + 1), base = side + "." + std::to_string(level) + ".";
  if (rest.starts_with("op.")) return base + sampler + ".0.conv" + rest.substr(2);
  if (rest.starts_with("conv.")) return base + sampler + ".0." + rest;
  if (parts[at] == "0") return base + "resnets." + std::to_string(index) + "." + resnet(rest);
  return base + "attentions." + std::to_string(index) + "." + rest;
}

}  // namespace

std::string diffusers_unet_name(const std::string& name, const UnetConfig& c) {
  const std::vector<std::string> parts = split(name);
  if (name.starts_with("input_blocks.0.0.")) return "conv_in." + join(parts, 3);
  if (parts[0] == "input_blocks" && parts.size() > 3) {
    const int i = number(parts[1]) - 1, level = i / (c.blocks + 1);
    return block("down_blocks", level, i % (c.blocks + 1), parts, 2, "downsamplers");
  }
  if (parts[0] == "output_blocks" && parts.size() > 3) {
    const int i = number(parts[1]), level = i / (c.blocks + 1);
    return block("up_blocks", level, i % (c.blocks + 1), parts, 2, "upsamplers");
  }
  if (parts[0] == "middle_block" && parts.size() > 2) {
    if (parts[1] == "1") return "mid_block.attentions.0." + join(parts, 2);
    return "mid_block.resnets." + std::string(parts[1] == "0" ? "0." : "1.") + resnet(join(parts, 2));
  }
  return renamed(name, {{"time_embed.0", "time_embedding.linear_1"},
                        {"time_embed.2", "time_embedding.linear_2"},
                        {"label_emb.0.0", "add_embedding.linear_1"},
                        {"label_emb.0.2", "add_embedding.linear_2"},
                        {"out.0", "conv_norm_out"},
                        {"out.2", "conv_out"}});
}

std::string diffusers_vae_name(const std::string& name, const VaeConfig& c) {
  const std::vector<std::string> parts = split(name);
  if (parts.size() < 3) return name;  // quant_conv.weight
  const std::string coder = parts[0] + ".";
  if (parts[1] == "mid") {
    if (parts[2] == "attn_1")
      return coder + "mid_block.attentions.0." +
             renamed(join(parts, 3),
                     {{"norm", "group_norm"}, {"q", "to_q"}, {"k", "to_k"}, {"v", "to_v"}, {"proj_out", "to_out.0"}});
    return coder + "mid_block.resnets." + (parts[2] == "block_1" ? "0." : "1.") +
           renamed(join(parts, 3), {{"nin_shortcut", "conv_shortcut"}});
  }
  if ((parts[1] == "up" || parts[1] == "down") && parts.size() > 4) {
    const bool up = parts[1] == "up";
    const int level = up ? static_cast<int>(c.channels.size()) - 1 - number(parts[2]) : number(parts[2]);
    const std::string base = coder + (up ? "up_blocks." : "down_blocks.") + std::to_string(level) + ".";
    if (parts[3] == "block")
      return base + "resnets." + parts[4] + "." + renamed(join(parts, 5), {{"nin_shortcut", "conv_shortcut"}});
    return base + (up ? "upsamplers.0." : "downsamplers.0.") + join(parts, 4);
  }
  return coder + renamed(join(parts, 1), {{"norm_out", "conv_norm_out"}});
}

std::string old_diffusers_vae_name(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOld{
      {{".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}}};
  for (auto [now, old] : kOld)
    if (const size_t at = name.find(now); at != std::string::npos)
      return name.substr(0, at) + std::string(old) + name.substr(at + now.size());
  return name;
}

}  // namespace danqing
