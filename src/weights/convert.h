// Element conversion for loaders and writers: every type that a checkpoint can hold to f32, and f32 to what is computed
// in or stored. Quantised blocks follow the GGUF formats (32 or 256 elements a block, see DType). Scales that a file
// keeps beside fp8 tensors are the caller's business. Plain loops over fixed chunks, so that the compiler can vectorise
// them.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace danqing {

// out.size() elements from bytes_of(from, out.size()) bytes. Any alignment of `in`. Integers and booleans convert by
// value.
void to_f32(DType from, std::span<const std::byte> in, std::span<float> out);

// Rounds to nearest even. `to`: f32, f16, bf16, f64, q8_0, q4_0, q4_k, q5_k, q6_k (others: Error(Fault::request)).
// The element count must be a multiple of the block. A value past the type's range becomes an infinity (f16).
void from_f32(std::span<const float> in, DType to, std::span<std::byte> out);

// Straight copy where the types agree, otherwise through f32 in chunks. `count` elements.
void convert(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out, int64_t count);

bool can_convert_to(DType to);

}  // namespace danqing
