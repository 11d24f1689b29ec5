// Vectors of f32 for kernels: loads and stores of f32, bf16 and f16, exponentials, activations. Included once for each
// instruction set (see targets.h), after <hwy/foreach_target.h>. Ends of rows go through a small buffer, never past
// the end of a tensor.
#if defined(DANQING_RUN_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DANQING_RUN_CPU_SIMD_INL_H_
#undef DANQING_RUN_CPU_SIMD_INL_H_
#else
#define DANQING_RUN_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "graph/op.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using hwy::bfloat16_t;
using hwy::float16_t;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr size_t kLanes = hn::MaxLanes(Floats());

HWY_INLINE Vector all(float x) { return hn::Set(Floats(), x); }
HWY_INLINE Vector load(const float* p) { return hn::LoadU(Floats(), p); }
HWY_INLINE Vector load(const bfloat16_t* p) {
  const hn::Rebind<uint16_t, Floats> half;
  const hn::Rebind<uint32_t, Floats> whole;
  const auto bits = hn::PromoteTo(whole, hn::LoadU(half, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(bits));
}

HWY_INLINE void store(Vector v, float* p) { hn::StoreU(v, Floats(), p); }
// To nearest, ties to even; a NaN stays one (Highway 1.0.3 cuts the low bits off instead).
HWY_INLINE void store(Vector v, bfloat16_t* p) {
  const hn::Rebind<uint16_t, Floats> half;
  const hn::Rebind<uint32_t, Floats> whole;
  const auto bits = hn::BitCast(whole, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 1u));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(whole, 0x400000u));
  const auto chosen = hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(v)), quiet, up);
  hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(chosen)), half, reinterpret_cast<uint16_t*>(p));
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4  // Highway's emulation knows no infinity and cuts bits off
HWY_INLINE Vector load(const float16_t* p) {
  HWY_ALIGN float held[kLanes];
  for (size_t i = 0; i < kLanes; ++i) held[i] = f16_to_f32(p[i].bits);
  return load(held);
}
HWY_INLINE void store(Vector v, float16_t* p) {
  HWY_ALIGN float held[kLanes];
  store(v, held);
  for (size_t i = 0; i < kLanes; ++i) p[i].bits = f32_to_f16(held[i]);
}
#else
HWY_INLINE Vector load(const float16_t* p) {
  return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<float16_t, Floats>(), p));
}
HWY_INLINE void store(Vector v, float16_t* p) {
  const hn::Rebind<float16_t, Floats> half;
  hn::StoreU(hn::DemoteTo(half, v), half, p);
}
#endif

// The first n < kLanes values; the others are 0.
template <class T>
HWY_INLINE Vector load_part(const T* p, size_t n) {
  HWY_ALIGN T held[kLanes] = {};
  std::memcpy(held, p, n * sizeof(T));
  return load(held);
}
template <class T>
HWY_INLINE void store_part(Vector v, T* p, size_t n) {
  HWY_ALIGN T held[kLanes];
  store(v, held);
  std::memcpy(p, held, n * sizeof(T));
}

// to[i] = f(x[i]...) for n values; `to` may be one of the x.
template <class To, class F, class... From>
HWY_INLINE void map(size_t n, To* to, F f, const From*... x) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(f(load(x + i)...), to + i);
  if (i < n) store_part(f(load_part(x + i, n - i)...), to + i, n - i);
}

HWY_INLINE float sum_of(Vector v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }

// Bounds that let a NaN through: x86 gives the second operand where one is a NaN, the plain target the number.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Vector at_least(Vector x, float low) { return hn::IfThenElse(hn::Lt(x, all(low)), all(low), x); }
HWY_INLINE Vector at_most(Vector x, float high) { return hn::IfThenElse(hn::Gt(x, all(high)), all(high), x); }
#else
HWY_INLINE Vector at_least(Vector x, float low) { return hn::Max(all(low), x); }
HWY_INLINE Vector at_most(Vector x, float high) { return hn::Min(all(high), x); }
#endif

// Adding this to a whole number n puts n + 127 into the lowest bits (and rounds what is not whole).
inline constexpr float kToExponent = 0x1.8p23f + 127;

// 2^(n + part), |part| <= 1/2, n in [-126, 127], where shifted = n + kToExponent: a polynomial fitted for the least
// largest relative error (9.2e-8), exact at 0. A NaN in part stays one.
HWY_INLINE Vector exp2_of(Vector shifted, Vector part) {
  Vector p = all(0x1.5bba14p-10f);
  p = hn::MulAdd(p, part, all(0x1.3cea88p-7f));
  p = hn::MulAdd(p, part, all(0x1.c6b752p-5f));
  p = hn::MulAdd(p, part, all(0x1.ebf9bcp-3f));
  p = hn::MulAdd(p, part, all(0x1.62e42ap-1f));
  p = hn::MulAdd(p, part, all(1.0f));
  const hn::Rebind<uint32_t, Floats> bits;
  return hn::Mul(p, hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
}

// 2^x for x <= 127; what would fall below 2^-125 (no denormal) becomes that.
HWY_INLINE Vector exp2(Vector x) {
  x = at_least(x, -125.0f);
  const Vector shifted = hn::Add(x, all(kToExponent));
  return exp2_of(shifted, hn::Sub(x, hn::Sub(shifted, all(kToExponent))));
}

// e^x within 2^+-125.
HWY_INLINE Vector exp(Vector x) {
  constexpr float kLog2e = 0x1.715476p+0f, kLog2eRest = 0x1.4ae0cp-26f;  // log2(e) in two parts
  x = at_most(at_least(x, -86.6f), 86.6f);
  const Vector shifted = hn::MulAdd(x, all(kLog2e), all(kToExponent));
  const Vector whole = hn::Sub(shifted, all(kToExponent));
  return exp2_of(shifted, hn::MulAdd(x, all(kLog2eRest), hn::MulSub(x, all(kLog2e), whole)));
}

// Abramowitz and Stegun 7.1.26 for x >= 0: absolute error 1.5e-7.
HWY_INLINE Vector erfc_positive(Vector x) {
  const Vector t = hn::Div(all(1), hn::MulAdd(x, all(0.3275911f), all(1)));
  Vector p = all(1.061405429f);
  p = hn::MulAdd(p, t, all(-1.453152027f));
  p = hn::MulAdd(p, t, all(1.421413741f));
  p = hn::MulAdd(p, t, all(-0.284496736f));
  p = hn::MulAdd(p, t, all(0.254829592f));
  return hn::Mul(hn::Mul(p, t), exp(hn::Neg(hn::Mul(x, x))));
}

HWY_INLINE Vector sigmoid_times(Vector x, Vector z) { return hn::Div(x, hn::Add(all(1), exp(hn::Neg(z)))); }

struct Identity {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};
struct Silu {
  HWY_INLINE Vector operator()(Vector x) const { return sigmoid_times(x, x); }
};
struct Gelu {  // x (1 + erf(x / sqrt 2)) / 2
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector half_tail =
        hn::Mul(hn::Mul(all(0.5f), hn::Abs(x)), erfc_positive(hn::Mul(hn::Abs(x), all(0.70710678f))));
    return hn::Sub(at_least(x, 0), half_tail);
  }
};
struct GeluTanh {  // x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector inner = hn::MulAdd(hn::Mul(x, x), all(2 * 0.79788456f * 0.044715f), all(2 * 0.79788456f));
    return sigmoid_times(x, hn::Mul(x, inner));
  }
};
struct QuickGelu {
  HWY_INLINE Vector operator()(Vector x) const { return sigmoid_times(x, hn::Mul(x, all(1.702f))); }
};
struct Tanh {
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::Sub(all(1), hn::Div(all(2), hn::Add(exp(hn::Add(x, x)), all(1))));
  }
};

// Calls f with the function that `a` names.
template <class F>
HWY_INLINE void with_activation(Activation a, F f) {
  switch (a) {
    case Activation::none:
      return f(Identity());
    case Activation::silu:
      return f(Silu());
    case Activation::gelu:
      return f(Gelu());
    case Activation::gelu_tanh:
      return f(GeluTanh());
    case Activation::quick_gelu:
      return f(QuickGelu());
    case Activation::tanh:
      return f(Tanh());
  }
}

// Calls f with `p` as a pointer to what activations are held in: f32 or bf16.
template <class F>
HWY_INLINE void with_type(DType t, const void* p, F f) {
  t == DType::f32 ? f(static_cast<const float*>(p)) : f(static_cast<const bfloat16_t*>(p));
}
template <class F>
HWY_INLINE void with_type(DType t, void* p, F f) {
  t == DType::f32 ? f(static_cast<float*>(p)) : f(static_cast<bfloat16_t*>(p));
}

}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
