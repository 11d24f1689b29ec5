// Element types of tensors, block formats included: a block of `block` elements takes `bytes` bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace danqing {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
};

struct DTypeInfo {
  std::string_view name;
  int block;  // elements a block
  int bytes;  // bytes a block
};

const DTypeInfo& info(DType);
inline std::string_view name(DType t) { return info(t).name; }
std::optional<DType> dtype_named(std::string_view name);

// Bytes of `count` elements; `count` must be a multiple of the block.
int64_t bytes_of(DType, int64_t count);

// Conversions of single values; round to nearest even. (Kernels have their own wide versions.)
float f16_to_f32(uint16_t);
uint16_t f32_to_f16(float);
float bf16_to_f32(uint16_t);
uint16_t f32_to_bf16(float);
float f8_e4m3_to_f32(uint8_t);
float f8_e5m2_to_f32(uint8_t);

}  // namespace danqing
