// Nearest neighbour to any larger size; sizes that are exactly doubled before a convolution never come here (Conv2d).
#include <cstring>

#include "run/cpu/cpu.h"

namespace danqing::cpu {

namespace {

class UpsampleKernel : public Kernel {
 public:
  UpsampleKernel(const TensorType& in, int threads) : in_(in), threads_(threads) {}
  NodeFacts facts() const override { return {Bytes(0), {Bytes(0)}}; }

  void run(const KernelArguments& a) override {
    const Shape &from = in_.shape, &to = a.out.type.shape;
    const int64_t pixel = bytes_of(in_.dtype, from[3]);
    const auto* source = static_cast<const std::byte*>(a.in[0].data);
    auto* target = static_cast<std::byte*>(a.out.data);
#pragma omp parallel for num_threads(threads_)
    for (int64_t row = 0; row < to[0] * to[1]; ++row) {
      const int64_t image = row / to[1], y = row % to[1] * from[1] / to[1];
      for (int64_t x = 0; x < to[2]; ++x)
        std::memcpy(target + (row * to[2] + x) * pixel,
                    source + ((image * from[1] + y) * from[2] + x * from[2] / to[2]) * pixel,
                    static_cast<size_t>(pixel));
    }
  }

 private:
  TensorType in_;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Upsample&, const Site& site) {
  return std::make_unique<UpsampleKernel>(site.in[0], site.ways.threads);
}

}  // namespace danqing::cpu
