// Where OpenCLIP's text encoder, as single files of SDXL carry it, keeps what transformers' CLIPTextModelWithProjection
// names: queries, keys and values are one layer, the projection is stored for rows from the left.
#pragma once

#include "model/layout.h"

namespace danqing {

// "text_model.encoder.layers.3.self_attn.k_proj.bias" -> the second third of
// "<prefix>transformer.resblocks.3.attn.in_proj_bias".
std::vector<KeyPlace> openclip_places(const std::string& prefix, const std::string& name);

}  // namespace danqing
