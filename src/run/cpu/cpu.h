// The CPU backend. One file an op under run/cpu/; each gives a make_kernel overload for its op.
#pragma once

#include <memory>

#include "run/kernel.h"

namespace danqing::cpu {

// How this processor computes. Tests force lesser ways; `detect` takes the best there is.
struct Ways {
  bool bf16_products = false;  // bf16 matrix products natively (AVX512-BF16, AMX): bf16 activations are worth it
  bool primitives = false;     // oneDNN's packed primitives (AVX-512): else its sgemm over tiles
  int threads = 1;
};
Ways detect(int threads);  // threads 0: all usable cores

// A kernel for the node, ready to run. Throws Bug for types that no kernel takes.
std::unique_ptr<Kernel> make_kernel(const Graph&, const Node&, const Ways&);

// One overload an op (run/cpu/<op>.cpp), found by make_kernel.
struct Site {
  const Node& node;
  std::vector<TensorType> in;
  std::vector<bool> is_weight;  // per input
  const Ways& ways;
};
std::unique_ptr<Kernel> make(const Linear&, const Site&);
std::unique_ptr<Kernel> make(const Conv2d&, const Site&);
std::unique_ptr<Kernel> make(const GroupNorm&, const Site&);
std::unique_ptr<Kernel> make(const LayerNorm&, const Site&);
std::unique_ptr<Kernel> make(const RmsNorm&, const Site&);
std::unique_ptr<Kernel> make(const Attention&, const Site&);
std::unique_ptr<Kernel> make(const Add&, const Site&);
std::unique_ptr<Kernel> make(const Mul&, const Site&);
std::unique_ptr<Kernel> make(const Modulate&, const Site&);
std::unique_ptr<Kernel> make(const Rope&, const Site&);
std::unique_ptr<Kernel> make(const Unary&, const Site&);
std::unique_ptr<Kernel> make(const Scale&, const Site&);
std::unique_ptr<Kernel> make(const Concat&, const Site&);
std::unique_ptr<Kernel> make(const Repeat&, const Site&);
std::unique_ptr<Kernel> make(const Patchify&, const Site&);
std::unique_ptr<Kernel> make(const Unpatchify&, const Site&);
std::unique_ptr<Kernel> make(const Upsample&, const Site&);
std::unique_ptr<Kernel> make(const Slice&, const Site&);
std::unique_ptr<Kernel> make(const Rows&, const Site&);
std::unique_ptr<Kernel> make(const Embedding&, const Site&);
std::unique_ptr<Kernel> make(const Sinusoid&, const Site&);
std::unique_ptr<Kernel> make(const Select&, const Site&);
std::unique_ptr<Kernel> make(const Cast&, const Site&);

}  // namespace danqing::cpu
