// Matrix products and convolutions by oneDNN's own primitives: weights laid out once as the primitive wants them,
// activations channels-last, bias, activation and combination fused. oneDNN 2.x and 3.x differ only where noted.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "run/cpu/cpu.h"

namespace danqing::cpu {

// Throws Bug for types that no kernel of a linear layer or convolution takes.
void check_product_types(const Site&);
// Whether the site's types are those of a primitive that this processor runs well.
bool suits_primitives(const Site&);

// The kernels by primitives; suits_primitives(site).
std::unique_ptr<Kernel> make_primitive(const Linear&, const Site&);
std::unique_ptr<Kernel> make_primitive(const Conv2d&, const Site&);

// For a scope, oneDNN plans for and runs on this many threads.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;

 private:
  int before_;
};

dnnl::memory::data_type onednn_type(DType);
// Scratch given by the caller; what follows the product. `extra` has the shape of the result.
dnnl::primitive_attr attributes(Activation, Combine, const dnnl::memory::desc& extra);

// One primitive with the inputs [x, weight, bias?, extra?] of a Linear or Conv2d. Its code is made at the first run.
class PrimitiveKernel : public Kernel {
 public:
  // `plain`: the weight in checkpoint order, in the type that the primitive computes in.
  PrimitiveKernel(dnnl::engine, dnnl::primitive_desc, dnnl::memory::desc plain, const Site&, bool has_bias,
                  bool has_activation);
  NodeFacts facts() const override;
  void pack(size_t input, std::span<const std::byte> plain, std::span<std::byte> packed) const override;
  void run(const KernelArguments&) override;

 private:
  void bind();  // makes the primitive and its memory objects
  dnnl::engine engine_;
  dnnl::primitive_desc description_;
  dnnl::memory::desc plain_;
  std::vector<Bytes> packed_;
  DType held_, wanted_;  // the weight's type in the graph and in the primitive
  bool has_bias_, has_extra_;
  int extra_position_, threads_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> in_;
  dnnl::memory out_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace danqing::cpu
