// Reads a diffusers scheduler configuration (scheduler_config.json): its class names the sampler, its keys the levels.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sample/sampler.h"

namespace danqing {

// A configuration in the diffusers convention. `where` is the file's name for messages. The caller sets steps, strength
// and what the user chose himself, and dynamic_mu where
// "use_dynamic_shifting" stands in it (mu depends on the picture's size). Throws Error(request) for a class or a
// setting that danqing does not have, and Error(file) for a value of the wrong type.
SamplerConfig scheduler_config(const nlohmann::json& config, const std::string& where);

}  // namespace danqing
