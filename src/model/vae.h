// The autoencoder between pictures and latents (AutoencoderKL), parameters as the original single-file layout names
// them.
#pragma once

#include "graph/build.h"
#include "model/config.h"

namespace danqing {

// in "latent" f32 [n, h, w, latent_channels] as the sampler leaves it; out "picture" f32 [n, h*f, w*f, 3], about -1..1.
Graph vae_decode(const VaeConfig&, Shape latent, Precision, const std::string& scope);

// in "original" f32 [n, H, W, 3] in -1..1; out "moments" f32 [n, H/f, W/f, 2 * latent_channels]: mean, log variance
// (not clamped, not scaled).
Graph vae_encode(const VaeConfig&, Shape picture, Precision, const std::string& scope);

}  // namespace danqing
