// What distinguishes one checkpoint of a family from another: plain values, read from shapes or config files
// (read_config.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op.h"

namespace danqing {

struct ClipConfig {
  int64_t vocabulary = 49408, width = 768, hidden = 3072, positions = 77;
  int layers = 12, heads = 12;
  Activation activation = Activation::quick_gelu;
  int64_t projection = 0;  // of the pooled output; 0: none wanted
  bool operator==(const ClipConfig&) const = default;
};

// A text encoder of a family, and what the denoiser reads of it.
struct TextEncoder {
  std::string component = "text";  // what its parameters' names begin with
  ClipConfig clip;
  int skip = 1;  // the state that the denoiser was trained on: 1 the last layer's, 2 that of the one before, ...
  bool final_norm = true;   // after the final norm (SD 1.5), or as it is (SDXL)
  bool pooled = false;      // the projected row of the end token conditions the denoiser too
  int32_t padding = 49407;  // token behind the end
  bool operator==(const TextEncoder&) const = default;
};

struct UnetLevel {
  int64_t channels = 320;
  int depth = 1;  // transformer blocks after each residual block; 0: no attention at this level
  int heads = 8;
  bool operator==(const UnetLevel&) const = default;
};

struct UnetConfig {
  int64_t in_channels = 4, out_channels = 4, context = 768;
  int blocks = 2;  // residual blocks a level
  std::vector<UnetLevel> levels;
  UnetLevel middle;
  int groups = 32;
  bool linear_projection = false;  // projections of the spatial transformer: matrices instead of 1x1 convolutions
  int64_t label = 0;               // width of the added conditioning (SDXL: 2816); 0: none
  int64_t model_channels() const { return levels.front().channels; }
  bool operator==(const UnetConfig&) const = default;
};

struct VaeConfig {
  int64_t latent_channels = 4;
  int blocks = 2;  // residual blocks a level in the encoder; the decoder has one more
  std::vector<int64_t> channels{128, 256, 512, 512};
  int groups = 32;
  bool quant_conv = true;  // the 1x1 convolutions between latent and coder
  double scale = 0.18215, shift = 0;
  int factor() const { return 1 << (channels.size() - 1); }  // pixels a latent value, each way
  bool operator==(const VaeConfig&) const = default;
};

enum class Parametrisation : uint8_t { epsilon, v, flow };

}  // namespace danqing
