// LayerNorm and RmsNorm: over each row's last axis. A row stays in the nearest cache, so it is read as often as needed:
// the mean first, then the squares of what is left.
#include <algorithm>
#include <cmath>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/row_norm.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/simd_inl.h"

#if !defined(DANQING_RUN_CPU_ROW_NORM)
#define DANQING_RUN_CPU_ROW_NORM
namespace danqing::cpu {
namespace {

struct RowNorm {
  bool centred = false;  // LayerNorm
  float eps = 0;
  int64_t width = 0;
  const float *weight = nullptr, *bias = nullptr;  // null: ones, zeros
};

}  // namespace
}  // namespace danqing::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

// The sum of f over a row, in four partial sums.
template <class T, class F>
HWY_INLINE float sum_over(const T* x, size_t n, F f) {
  Vector sum[4] = {all(0), all(0), all(0), all(0)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (size_t k = 0; k < 4; ++k) sum[k] = f(sum[k], load(x + i + k * kLanes));
  for (; i + kLanes <= n; i += kLanes) sum[0] = f(sum[0], load(x + i));
  float total = sum_of(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
  for (; i < n; ++i) {  // one by one: a part of a vector would count its zeros
    HWY_ALIGN float one[kLanes];
    store(f(all(0), load_part(x + i, 1)), one);
    total += one[0];
  }
  return total;
}

template <class T>
void normalize_row(const RowNorm& op, const T* x, T* out) {
  const auto n = static_cast<size_t>(op.width);
  const float count = static_cast<float>(op.width);
  const float mean = op.centred ? sum_over(x, n, [](Vector s, Vector v) HWY_ATTR { return hn::Add(s, v); }) / count : 0;
  const Vector centre = all(mean);
  const float squares = sum_over(x, n, [&](Vector s, Vector v) HWY_ATTR {
    const Vector d = hn::Sub(v, centre);
    return hn::MulAdd(d, d, s);
  });
  const Vector scale = all(1 / std::sqrt(squares / count + op.eps));
  if (op.bias) {
    const auto f = [&](Vector v, Vector w, Vector b)
                       HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, centre), scale), w, b); };
    map(n, out, f, x, op.weight, op.bias);
  } else if (op.weight) {
    map(
        n, out, [&](Vector v, Vector w) HWY_ATTR { return hn::Mul(hn::Mul(hn::Sub(v, centre), scale), w); }, x,
        op.weight);
  } else {
    map(
        n, out, [&](Vector v) HWY_ATTR { return hn::Mul(hn::Sub(v, centre), scale); }, x);
  }
}

void normalize_rows(const RowNorm& op, DType type, const void* from, void* to, int64_t begin, int64_t end) {
  with_type(type, from, [&]<class T>(const T* x) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) normalize_row(op, x + r * op.width, static_cast<T*>(to) + r * op.width);
  });
}

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(normalize_rows);

namespace {

class RowNormKernel : public Kernel {
 public:
  RowNormKernel(RowNorm op, const Site& site) : op_(op), facts_(plain_facts(site)), threads_(site.ways.threads) {
    require_type(site.in[0], {DType::f32, DType::bf16});
    for (size_t i = 1; i < site.in.size(); ++i) require_type(site.in[i], {DType::f32});
    op_.width = site.in[0].shape.back();
  }
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    RowNorm op = op_;
    if (a.in.size() > 1) op.weight = static_cast<const float*>(a.in[1].data);
    if (a.in.size() > 2) op.bias = static_cast<const float*>(a.in[2].data);
    const int64_t rows = a.out.type.shape.rows();
    const int64_t chunk = std::max<int64_t>(1, 16384 / op.width);
#pragma omp parallel for num_threads(threads_)
    for (int64_t begin = 0; begin < rows; begin += chunk) HWY_DYNAMIC_DISPATCH(normalize_rows)
    (op, a.out.type.dtype, a.in[0].data, a.out.data, begin, std::min(begin + chunk, rows));
  }

 private:
  RowNorm op_;
  NodeFacts facts_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const LayerNorm& op, const Site& site) {
  return std::make_unique<RowNormKernel>(RowNorm{true, op.eps}, site);
}

std::unique_ptr<Kernel> make(const RmsNorm& op, const Site& site) {
  return std::make_unique<RowNormKernel>(RowNorm{false, op.eps}, site);
}

}  // namespace danqing::cpu
#endif  // HWY_ONCE
