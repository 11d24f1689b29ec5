#include "run/cpu/simd.h"

#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/simd.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

template <class From, class To>
void convert(const From* from, To* to, int64_t count) {
  map(static_cast<size_t>(count), to, Identity(), from);
}

void widen(DType type, const void* from, float* to, int64_t count) {
  if (type == DType::f16) return convert(static_cast<const float16_t*>(from), to, count);
  with_type(type, from, [&](const auto* x) HWY_ATTR { convert(x, to, count); });
}

void narrow(DType type, const float* from, void* to, int64_t count) {
  if (type == DType::f16) return convert(from, static_cast<float16_t*>(to), count);
  with_type(type, to, [&](auto* y) HWY_ATTR { convert(from, y, count); });
}

template <class F, class T>
HWY_INLINE void finish_row(F activation, Combine combine, size_t n, T* out, const float* c, const float* bias,
                           const T* extra) {
  if (combine == Combine::add) {
    map(
        n, out, [&](Vector x, Vector b, Vector e) HWY_ATTR { return hn::Add(activation(hn::Add(x, b)), e); }, c, bias,
        extra);
  } else if (combine == Combine::mul) {
    map(
        n, out, [&](Vector x, Vector b, Vector e) HWY_ATTR { return hn::Mul(activation(hn::Add(x, b)), e); }, c, bias,
        extra);
  } else {
    map(
        n, out, [&](Vector x, Vector b) HWY_ATTR { return activation(hn::Add(x, b)); }, c, bias);
  }
}

// Without a bias, zeros stand in for it, a block of columns at a time.
constexpr int64_t kBlock = 1024;
alignas(64) constexpr float kZeros[kBlock] = {};

template <class F, class T>
void finish(F activation, const Epilogue& e, T* out, const float* c, int64_t rows, int64_t n, int64_t stride) {
  const T* extra = static_cast<const T*>(e.extra);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; j += kBlock) {
      const auto size = static_cast<size_t>(HWY_MIN(kBlock, n - j));
      finish_row(activation, e.combine, size, out + r * e.out_stride + j, c + r * stride + j,
                 e.bias ? e.bias + j : kZeros, extra ? extra + r * e.extra_stride + j : nullptr);
    }
  }
}

void finish_all(const Epilogue& e, const float* c, int64_t rows, int64_t n, int64_t stride) {
  with_activation(e.activation, [&](auto activation) HWY_ATTR {
    with_type(e.type, e.out, [&](auto* out) HWY_ATTR { finish(activation, e, out, c, rows, n, stride); });
  });
}

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(widen);
HWY_EXPORT(narrow);
HWY_EXPORT(finish_all);

void to_f32(DType type, const void* from, float* to, int64_t count) {
  DANQING_CHECK(type == DType::f32 || type == DType::f16 || type == DType::bf16);
  HWY_DYNAMIC_DISPATCH(widen)(type, from, to, count);
}

void from_f32(DType type, const float* from, void* to, int64_t count) {
  DANQING_CHECK(type == DType::f32 || type == DType::f16 || type == DType::bf16);
  HWY_DYNAMIC_DISPATCH(narrow)(type, from, to, count);
}

void epilogue(const Epilogue& e, const float* c, int64_t rows, int64_t n, int64_t stride) {
  DANQING_CHECK(e.type == DType::f32 || e.type == DType::bf16);
  HWY_DYNAMIC_DISPATCH(finish_all)(e, c, rows, n, stride);
}

void epilogue(float* c, int64_t rows, int64_t n, int64_t stride, const float* bias, Activation activation,
              Combine combine, const float* extra, int64_t extra_stride) {
  epilogue({bias, activation, combine, DType::f32, extra, extra_stride, c, stride}, c, rows, n, stride);
}

}  // namespace danqing::cpu
#endif  // HWY_ONCE
