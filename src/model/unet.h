// The U-Net of Stable Diffusion 1.x and XL, parameters as the original single-file layout names them.
#pragma once

#include "graph/build.h"
#include "model/config.h"

namespace danqing {

// How the evaluations of a request are laid out.
struct UnetBatch {
  int64_t height = 64, width = 64;  // of the latent
  int64_t images = 1;               // rows evaluated at once
  int64_t contexts = 1;             // distinct prompts among the rows of one evaluation; divides images
  int64_t halves = 1;               // evaluations in turn for one step (guidance in turn: 2)
  int64_t tokens = 77;
  int64_t steps = 20;  // evaluations of one half over the whole request
};

struct UnetGraphs {
  Graph once;  // what no step changes: text keys and values, time embeddings of all steps
  Graph each;  // one evaluation
};

// once: in  "timesteps" f32 [steps * rows] (step-major), "context" f32 [halves * contexts, tokens, context],
//           with added conditioning "label" f32 [rows, label], rows = halves * contexts; else rows = 1.
// each: in  "noisy" f32 [images, height, width, in_channels]; out "prediction" f32 [.., out_channels].
UnetGraphs unet(const UnetConfig&, const UnetBatch&, Precision, const std::string& scope);

}  // namespace danqing
