// What attention kernels know of their problem.
#pragma once

#include "graph/op.h"

namespace danqing::cpu {

struct AttentionShape {
  DType type = DType::f32;
  int64_t images = 1, kv_images = 1;  // kv_images divides images; image n meets keys n * kv_images / images
  int64_t heads = 1, kv_heads = 1;
  int64_t queries = 1, keys = 1;
  int64_t size = 1;     // of a head
  bool causal = false;  // query i sees keys 0..i
};

// The score of a key that a query may not see, and the maximum before any key: below every score, yet finite, so that
// differences of two of them are numbers.
inline constexpr float kHidden = -1e30f;

}  // namespace danqing::cpu
