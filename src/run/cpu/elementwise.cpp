// Add, Mul, Modulate, Unary, Scale, Cast: one value at a time, in chunks of a fixed size. Bound by memory.
#include <algorithm>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/simd.h"
#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/simd_inl.h"

#if !defined(DANQING_RUN_CPU_ELEMENTWISE)
#define DANQING_RUN_CPU_ELEMENTWISE
namespace danqing::cpu {
namespace {

struct Run {  // `count` values from one place on
  DType type;
  const void* x;
  void* out;
  size_t count;
};

}  // namespace
}  // namespace danqing::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

template <class F>
void map_run(const Run& run, F f) {
  with_type(run.type, run.x, [&]<class T>(const T* x) HWY_ATTR { map(run.count, static_cast<T*>(run.out), f, x); });
}

// out = x + y or x * y; y may be held in another type.
template <class F>
void map_pair(const Run& run, DType y_type, const void* y, F f) {
  with_type(run.type, run.x, [&]<class T>(const T* x) HWY_ATTR {
    with_type(y_type, y, [&](const auto* y) HWY_ATTR { map(run.count, static_cast<T*>(run.out), f, x, y); });
  });
}

void add_run(const Run& run, DType y_type, const void* y) {
  map_pair(run, y_type, y, [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
}

void multiply_run(const Run& run, DType y_type, const void* y) {
  map_pair(run, y_type, y, [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); });
}

// out = x * factor + residual; no residual: null. The factor may be held in another type.
void modulate_run(const Run& run, DType factor_type, const void* factor, const void* residual) {
  with_type(run.type, run.x, [&]<class T>(const T* x) HWY_ATTR {
    with_type(factor_type, factor, [&](const auto* m) HWY_ATTR {
      T* out = static_cast<T*>(run.out);
      const auto sum = [](Vector a, Vector b, Vector r) HWY_ATTR { return hn::MulAdd(a, b, r); };
      const auto product = [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); };
      if (residual) {
        map(run.count, out, sum, x, m, static_cast<const T*>(residual));
      } else {
        map(run.count, out, product, x, m);
      }
    });
  });
}

void scale_run(const Run& run, float factor, float offset) {
  map_run(run, [&](Vector x) HWY_ATTR { return hn::MulAdd(x, all(factor), all(offset)); });
}

void activate_run(const Run& run, Activation kind) {
  with_activation(kind, [&](auto f) HWY_ATTR { map_run(run, f); });
}

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(add_run);
HWY_EXPORT(multiply_run);
HWY_EXPORT(modulate_run);
HWY_EXPORT(scale_run);
HWY_EXPORT(activate_run);

namespace {

constexpr int64_t kChunk = 16384;

const void* at(const Tensor& t, int64_t i) { return static_cast<const std::byte*>(t.data) + bytes_of(t.type.dtype, i); }
void* at_to(const Tensor& t, int64_t i) { return static_cast<std::byte*>(t.data) + bytes_of(t.type.dtype, i); }

// F(arguments, begin, end) does the values [begin, end).
template <class F>
class ElementKernel : public Kernel {
 public:
  ElementKernel(const Site& site, F part) : facts_(plain_facts(site)), threads_(site.ways.threads), part_(part) {}
  NodeFacts facts() const override { return facts_; }
  void run(const KernelArguments& a) override {
    const int64_t count = a.out.type.shape.count();
#pragma omp parallel for num_threads(threads_)
    for (int64_t begin = 0; begin < count; begin += kChunk) part_(a, begin, std::min(begin + kChunk, count));
  }

 private:
  NodeFacts facts_;
  int threads_;
  F part_;
};

template <class F>
std::unique_ptr<Kernel> element_kernel(const Site& site, F part) {
  return std::make_unique<ElementKernel<F>>(site, part);
}

Run run_of(const KernelArguments& a, int64_t begin, int64_t end) {
  return {a.out.type.dtype, at(a.in[0], begin), at_to(a.out, begin), static_cast<size_t>(end - begin)};
}

// The second tensor is a trailing part of the first: it starts again each time it ends.
template <class F>
std::unique_ptr<Kernel> pair_kernel(const Site& site, F pair) {
  for (const TensorType& t : site.in) require_type(t, {DType::f32, DType::bf16});
  return element_kernel(site, [pair](const KernelArguments& a, int64_t begin, int64_t end) {
    const Tensor& y = a.in[1];
    const int64_t period = y.type.shape.count();
    for (int64_t i = begin; i < end;) {
      const int64_t start = i % period, stop = std::min(end, i + period - start);
      pair(run_of(a, i, stop), y.type.dtype, at(y, start));
      i = stop;
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make(const Add&, const Site& site) {
  return pair_kernel(site, [](const Run& r, DType t, const void* y) { HWY_DYNAMIC_DISPATCH(add_run)(r, t, y); });
}

std::unique_ptr<Kernel> make(const Mul&, const Site& site) {
  return pair_kernel(site, [](const Run& r, DType t, const void* y) { HWY_DYNAMIC_DISPATCH(multiply_run)(r, t, y); });
}

std::unique_ptr<Kernel> make(const Modulate&, const Site& site) {
  for (const TensorType& t : site.in) require_type(t, {DType::f32, DType::bf16});
  return element_kernel(site, [](const KernelArguments& a, int64_t begin, int64_t end) {
    const Tensor& factor = a.in[1];
    const int64_t images = a.out.type.shape[0], rows = factor.type.shape[0], width = factor.type.shape[1];
    const int64_t image = a.out.type.shape.count() / images;
    for (int64_t i = begin; i < end;) {
      const int64_t start = i % width, stop = std::min(end, i + width - start), row = i / image * rows / images;
      HWY_DYNAMIC_DISPATCH(modulate_run)
      (run_of(a, i, stop), factor.type.dtype, at(factor, row * width + start),
       a.in.size() > 2 ? at(a.in[2], i) : nullptr);
      i = stop;
    }
  });
}

std::unique_ptr<Kernel> make(const Unary& op, const Site& site) {
  require_type(site.in[0], {DType::f32, DType::bf16});
  return element_kernel(site, [kind = op.kind](const KernelArguments& a, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_run)(run_of(a, begin, end), kind);
  });
}

std::unique_ptr<Kernel> make(const Scale& op, const Site& site) {
  require_type(site.in[0], {DType::f32, DType::bf16});
  return element_kernel(site, [op](const KernelArguments& a, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_run)(run_of(a, begin, end), op.factor, op.offset);
  });
}

// Through f32, a block at a time: any of the three types to any other.
std::unique_ptr<Kernel> make(const Cast& op, const Site& site) {
  require_type(site.in[0], {DType::f32, DType::f16, DType::bf16});
  require_type(site.node.type, {DType::f32, DType::f16, DType::bf16});
  return element_kernel(site, [to = op.to](const KernelArguments& a, int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;
    alignas(64) float block[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      to_f32(a.in[0].type.dtype, at(a.in[0], i), block, count);
      from_f32(to, block, at_to(a.out, i), count);
    }
  });
}

}  // namespace danqing::cpu
#endif  // HWY_ONCE
