// The quantised block formats of GGUF, one block at a time. Inside the weights room only; convert.h is the door.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace danqing {

// One block of info(type).bytes bytes to info(type).block values and back; encode knows q8_0, q4_0, q4_k, q5_k, q6_k.
void decode_block(DType type, const std::byte* in, float* out);
void encode_block(DType type, const float* in, std::byte* out);

}  // namespace danqing
