// CLIP text encoder. in: ids i32 [n, 77]. Parameters as transformers' CLIPTextModel names them, under the build's scope.
#pragma once

#include "graph/build.h"
#include "model/config.h"

namespace danqing {

struct ClipOutput {
  int skip = 1;           // 1: the last layer's output, 2: the one before, ...
  bool final_norm = true;  // apply the final norm to it (SD 1.5 does, SDXL does not)
};

// One state a wish, each [n, 77, width] in the activations' dtype. No layer is built that no wish needs.
std::vector<Value> clip_text(const Build&, Value ids, const ClipConfig&, const std::vector<ClipOutput>& wishes);

}  // namespace danqing
