// Wide conversions of rows, and what follows a product: bias, activation, a sum or product with a second tensor. One
// thread; callers part the work.
#pragma once

#include "graph/op.h"

namespace danqing::cpu {

// `type` is f32, f16 or bf16. Rounding is to nearest, ties to even.
void to_f32(DType type, const void* from, float* to, int64_t count);
void from_f32(DType type, const float* from, void* to, int64_t count);

// c[r, j] = combine(activation(c[r, j] + bias[j]), extra[r, j]) for j < n; strides in values. bias may be null; extra
// is not read with Combine::none.
void epilogue(float* c, int64_t rows, int64_t n, int64_t stride, const float* bias, Activation, Combine,
              const float* extra, int64_t extra_stride);

// The same where the product stands in f32 and the result goes to `out` ([rows, n], any stride; may be c itself) in
// `type`, in which `extra` is held too: f32 or bf16.
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::none;
  Combine combine = Combine::none;
  DType type = DType::f32;
  const void* extra = nullptr;
  int64_t extra_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
};
void epilogue(const Epilogue&, const float* c, int64_t rows, int64_t n, int64_t stride);

}  // namespace danqing::cpu
