// Softmax(Q K^T / sqrt(d)) V by blocks of queries and keys with a running maximum (Dao et al., FlashAttention, 2022).
// A block of queries of one head is one piece of work; threads share nothing but the inputs.
#include "run/cpu/attention.h"

#include <omp.h>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/attention_inl.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

void attend(const AttentionShape& s, const void* q, const void* k, const void* v, void* out, int64_t item,
            float* scratch) {
  with_type(s.type, q, [&]<class T>(const T* queries) HWY_ATTR {
    attend_piece(s, queries, static_cast<const T*>(k), static_cast<const T*>(v), static_cast<T*>(out),
                 static_cast<size_t>(item), scratch);
  });
}

int64_t count_blocks(const AttentionShape& s) {  // of one image
  const auto height = static_cast<int64_t>(blocks_for(s).panels * kWidth);
  return s.heads * ((s.queries + height - 1) / height);
}

size_t count_scratch(const AttentionShape& s) { return AttentionScratch(nullptr, s, blocks_for(s)).floats; }

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(attend);
HWY_EXPORT(count_blocks);
HWY_EXPORT(count_scratch);

namespace {

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(AttentionShape shape, const Site& site)
      : shape_(shape),
        threads_(site.ways.threads),
        blocks_(shape.images * HWY_DYNAMIC_DISPATCH(count_blocks)(shape)),
        scratch_(HWY_DYNAMIC_DISPATCH(count_scratch)(shape)),
        facts_(plain_facts(site, Bytes(threads_ * static_cast<int64_t>(scratch_ * sizeof(float))))) {}
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    auto* scratch = static_cast<float*>(a.scratch);
    const void *q = a.in[0].data, *k = a.in[1].data, *v = a.in[2].data;
    if (a.in.size() > 3) return run_cut(a, scratch);
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int64_t item = 0; item < blocks_; ++item) HWY_DYNAMIC_DISPATCH(attend)
    (shape_, q, k, v, a.out.data, item, scratch + static_cast<size_t>(omp_get_thread_num()) * scratch_);
  }

 private:
  // Every image is a problem of its own, with as many keys as it has. Fewer keys never need more scratch.
  void run_cut(const KernelArguments& a, float* scratch) const {
    const auto* lengths = static_cast<const int32_t*>(a.in[3].data);
    for (int64_t m = 0; m < shape_.kv_images; ++m) DANQING_CHECK(lengths[m] > 0 && lengths[m] <= shape_.keys);
    const int64_t blocks = blocks_ / shape_.images;
    const int64_t q_image = bytes_of(shape_.type, shape_.queries * shape_.heads * shape_.size);
    const int64_t kv_image = bytes_of(shape_.type, shape_.keys * shape_.kv_heads * shape_.size);
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int64_t item = 0; item < blocks_; ++item) {
      const int64_t n = item / blocks, m = n * shape_.kv_images / shape_.images;
      AttentionShape one = shape_;
      one.images = one.kv_images = 1, one.keys = lengths[m];
      HWY_DYNAMIC_DISPATCH(attend)
      (one, offset(a.in[0], n * q_image), offset(a.in[1], m * kv_image), offset(a.in[2], m * kv_image),
       offset(a.out, n * q_image), item % blocks, scratch + static_cast<size_t>(omp_get_thread_num()) * scratch_);
    }
  }

  static std::byte* offset(const Tensor& t, int64_t bytes) { return static_cast<std::byte*>(t.data) + bytes; }

  AttentionShape shape_;
  int threads_;
  int64_t blocks_;
  size_t scratch_;  // floats a thread
  NodeFacts facts_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Attention& op, const Site& site) {
  for (const TensorType& t : std::span(site.in).first(3)) require_type(t, {DType::f32, DType::bf16});
  const Shape &q = site.in[0].shape, &k = site.in[1].shape;
  DANQING_CHECK(site.in[1].dtype == site.in[0].dtype && site.in[2].dtype == site.in[0].dtype);
  const AttentionShape shape{site.in[0].dtype, q[0],     k[0], op.heads, op.kv_heads, q[1], k[1],
                             q[2] / op.heads,  op.causal};
  return std::make_unique<AttentionKernel>(shape, site);
}

}  // namespace danqing::cpu
#endif  // HWY_ONCE
