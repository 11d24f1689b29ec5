#include "model/openclip_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace danqing {

namespace {

using Rename = std::pair<std::string_view, std::string_view>;

constexpr std::array<Rename, 4> kRoot{{{"text_model.embeddings.token_embedding.weight", "token_embedding.weight"},
                                       {"text_model.embeddings.position_embedding.weight", "positional_embedding"},
                                       {"text_model.final_layer_norm.weight", "ln_final.weight"},
                                       {"text_model.final_layer_norm.bias", "ln_final.bias"}}};
constexpr std::array<Rename, 5> kLayer{{{"self_attn.out_proj.", "attn.out_proj."},
                                        {"layer_norm1.", "ln_1."},
                                        {"layer_norm2.", "ln_2."},
                                        {"mlp.fc1.", "mlp.c_fc."},
                                        {"mlp.fc2.", "mlp.c_proj."}}};

KeyPlace layer_place(const std::string& block, std::string_view rest) {
  constexpr std::array<std::string_view, 3> kThirds{"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."};
  for (int i = 0; i < 3; ++i)
    if (rest.starts_with(kThirds[static_cast<size_t>(i)]))
      return {block + "attn.in_proj_" + std::string(rest.substr(kThirds[static_cast<size_t>(i)].size())), i, 3};
  for (auto [from, to] : kLayer)
    if (rest.starts_with(from)) return {block + std::string(to) + std::string(rest.substr(from.size()))};
  return {block + std::string(rest)};
}

}  // namespace

std::vector<KeyPlace> openclip_places(const std::string& prefix, const std::string& name) {
  if (name == "text_projection.weight")
    return {{prefix + "text_projection", 0, 1, true}, {prefix + "text_projection.weight"}};
  constexpr std::string_view kLayers = "text_model.encoder.layers.";
  if (const size_t dot = name.find('.', kLayers.size()); name.starts_with(kLayers) && dot != std::string::npos)
    return {layer_place(prefix + "transformer.resblocks." + name.substr(kLayers.size(), dot - kLayers.size()) + ".",
                        std::string_view(name).substr(dot + 1))};
  for (auto [from, to] : kRoot)
    if (name == from) return {{prefix + std::string(to)}};
  return {{prefix + name}};
}

}  // namespace danqing
