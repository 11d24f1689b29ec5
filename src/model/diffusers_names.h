// From the original single-file names of a U-Net and an autoencoder to the names in a diffusers folder. Pure renaming.
#pragma once

#include <string>

#include "model/config.h"

namespace danqing {

// "input_blocks.1.0.in_layers.0.weight" -> "down_blocks.0.resnets.0.norm1.weight".
std::string diffusers_unet_name(const std::string& name, const UnetConfig&);
// "decoder.up.3.block.0.norm1.weight" -> "decoder.up_blocks.0.resnets.0.norm1.weight".
std::string diffusers_vae_name(const std::string& name, const VaeConfig&);
// Names of attention layers before diffusers 0.15: to_q -> query, to_out.0 -> proj_attn.
std::string old_diffusers_vae_name(const std::string& diffusers_name);

}  // namespace danqing
