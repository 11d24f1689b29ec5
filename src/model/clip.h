// CLIP text encoder. in: ids i32 [n, 77]. Parameters as transformers' CLIPTextModel names them, under the build's
// scope.
#pragma once

#include "graph/build.h"
#include "model/config.h"

namespace danqing {

struct ClipOutput {
  int skip = 1;            // 1: the last layer's output, 2: the one before, ...
  bool final_norm = true;  // apply the final norm to it (SD 1.5 does, SDXL does not)
};

struct ClipStates {
  std::vector<Value> states;    // one a wish, each [n, 77, width] in the activations' dtype
  std::optional<Value> pooled;  // [p, projection]
};

// `ends`, i32 [p, 1]: rows, counted through all n texts, whose last state is normed and projected into the pooled
// output. No layer is built that nothing needs.
ClipStates clip_text(const Build&, Value ids, const ClipConfig&, const std::vector<ClipOutput>& wishes,
                     std::optional<Value> ends = {});

}  // namespace danqing
