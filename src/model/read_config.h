// Sizes of a model's parts: by the family's rules from the shapes of its parameters, or as a config file says.
#pragma once

#include "model/config.h"
#include "model/layout.h"

namespace danqing {

// From shapes; parameters are looked up under the component's name. Throw Error(Fault::file) naming what is missing.
ClipConfig clip_from_shapes(const Layout&, const std::string& component);
UnetConfig unet_from_shapes(const Layout&);
VaeConfig vae_from_shapes(const Layout&);

// A config.json's text over what is known so far: only keys that it has change anything. `where` names it in messages.
void apply_config(const std::string& json, const std::string& where, ClipConfig&);
void apply_config(const std::string& json, const std::string& where, UnetConfig&);
void apply_config(const std::string& json, const std::string& where, VaeConfig&);

// That a graph can be built of the sizes, wherever they come from. Throw Error(Fault::file).
void validate(const ClipConfig&, const std::string& where);
void validate(const UnetConfig&, const std::string& where);
void validate(const VaeConfig&, const std::string& where);

}  // namespace danqing
