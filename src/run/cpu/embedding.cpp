// Rows of a table by number. Ids come from a tokenizer, the table from a checkpoint: that they fit is checked here.
#include <string>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/simd.h"

namespace danqing::cpu {

namespace {

class EmbeddingKernel : public Kernel {
 public:
  explicit EmbeddingKernel(const Site& site) : facts_(plain_facts(site)), threads_(site.ways.threads) {}
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    const auto* ids = static_cast<const int32_t*>(a.in[0].data);
    const auto* table = static_cast<const std::byte*>(a.in[1].data);
    auto* out = static_cast<float*>(a.out.data);
    const TensorType& type = a.in[1].type;
    const int64_t count = a.in[0].type.shape.count(), rows = type.shape[0], width = type.shape[1];
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= rows)
        throw Error(Fault::file, "token id " + std::to_string(ids[i]) + " is outside the embedding table of " +
                                     std::to_string(rows) + " rows");
#pragma omp parallel for num_threads(threads_)
    for (int64_t i = 0; i < count; ++i)
      to_f32(type.dtype, table + bytes_of(type.dtype, ids[i] * width), out + i * width, width);
  }

 private:
  NodeFacts facts_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Embedding&, const Site& site) {
  require_type(site.in[0], {DType::i32});
  require_type(site.in[1], {DType::f32, DType::f16, DType::bf16});
  return std::make_unique<EmbeddingKernel>(site);
}

}  // namespace danqing::cpu
