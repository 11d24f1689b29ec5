// Embeddings of time, step by step in f32 as diffusers' get_timestep_embedding (downscale_freq_shift 0) computes them:
// w_j = exp(-ln(max_period) * j / half), then cos and sin of t * w_j. A rounding of w_j in another place would show in
// the fourth digit at t = 1000.
#include <cmath>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"

namespace danqing::cpu {

namespace {

class SinusoidKernel : public Kernel {
 public:
  SinusoidKernel(const Sinusoid& op, const Site& site) : op_(op), facts_(plain_facts(site)) {}
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    const auto* times = static_cast<const float*>(a.in[0].data);
    auto* out = static_cast<float*>(a.out.data);
    const int64_t half = op_.dim / 2;
    const auto slope = static_cast<float>(-std::log(static_cast<double>(op_.max_period)));
    for (int64_t n = 0; n < a.out.type.shape[0]; ++n, out += op_.dim) {
      float *cosines = out + (op_.flip ? 0 : half), *sines = out + (op_.flip ? half : 0);
      for (int64_t j = 0; j < half; ++j) {
        const float angle = times[n] * std::exp(slope * static_cast<float>(j) / static_cast<float>(half));
        cosines[j] = std::cos(angle), sines[j] = std::sin(angle);
      }
    }
  }

 private:
  Sinusoid op_;
  NodeFacts facts_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Sinusoid& op, const Site& site) {
  require_type(site.in[0], {DType::f32});
  return std::make_unique<SinusoidKernel>(op, site);
}

}  // namespace danqing::cpu
