// Rope: every value times its factor plus its partner times the partner's factor, the same for all heads of a token.
#include <algorithm>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/rope.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE Vector turn(Vector x, Vector own, Vector partner, Vector partners) {
  return hn::MulAdd(x, own, hn::Mul(partner, partners));
}

template <class T>
void turn_pairs(size_t size, const T* x, const float* own, const float* partners, T* out) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < size; ++i)
    store(turn(load(x + i), load(own + i), load(x + (i ^ 1)), load(partners + i)), out + i);
#else
  map(
      size, out, [](Vector v, Vector o, Vector p) HWY_ATTR { return turn(v, o, hn::Reverse2(Floats(), v), p); }, x, own,
      partners);
#endif
}

template <class T>
void turn_halves(size_t size, const T* x, const float* own, const float* partners, T* out) {
  const size_t half = size / 2;
  for (size_t at : {size_t{0}, half}) map(half, out + at, turn, x + at, own + at, x + (half - at), partners + at);
}

// Tokens of one row of the table each: `heads` heads of `size` values.
void turn_token(DType type, bool halves, size_t heads, size_t size, const void* from, const float* table, void* to) {
  with_type(type, from, [&]<class T>(const T* x) HWY_ATTR {
    T* out = static_cast<T*>(to);
    for (size_t h = 0; h < heads; ++h, x += size, out += size)
      halves ? turn_halves(size, x, table, table + size, out) : turn_pairs(size, x, table, table + size, out);
  });
}

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(turn_token);

namespace {

class RopeKernel : public Kernel {
 public:
  RopeKernel(bool halves, const Site& site) : halves_(halves), facts_(plain_facts(site)), threads_(site.ways.threads) {
    require_type(site.in[0], {DType::f32, DType::bf16});
  }
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    const Shape &x = a.in[0].type.shape, &table = a.in[1].type.shape;
    const DType type = a.out.type.dtype;
    const auto size = static_cast<size_t>(table[2] / 2), heads = static_cast<size_t>(x[2]) / size;
    const int64_t row = bytes_of(type, x[2]);
#pragma omp parallel for num_threads(threads_)
    for (int64_t token = 0; token < x[0] * x[1]; ++token) {
      const int64_t angles = token / x[1] * table[0] / x[0] * x[1] + token % x[1];
      HWY_DYNAMIC_DISPATCH(turn_token)
      (type, halves_, heads, size, static_cast<const std::byte*>(a.in[0].data) + token * row,
       static_cast<const float*>(a.in[1].data) + angles * table[2], static_cast<std::byte*>(a.out.data) + token * row);
    }
  }

 private:
  bool halves_;
  NodeFacts facts_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Rope& op, const Site& site) { return std::make_unique<RopeKernel>(op.halves, site); }

}  // namespace danqing::cpu
#endif  // HWY_ONCE
