// One op, ready to run on one device. Addresses are the device's: only a device's own kernels may follow them.
#pragma once

#include <array>
#include <span>

#include "graph/graph.h"
#include "plan/backend.h"

namespace danqing {

struct Tensor {
  void* data = nullptr;
  TensorType type;
};

// What changes from run to run of one graph (see Select).
struct Counters {
  std::array<int64_t, 2> value{};
  int64_t operator[](Counter c) const { return value[static_cast<size_t>(c)]; }
  int64_t& operator[](Counter c) { return value[static_cast<size_t>(c)]; }
};

struct KernelArguments {
  std::span<const Tensor> in;  // weights among them, as packed by pack()
  Tensor out;
  void* scratch = nullptr;  // facts().scratch bytes, 64-byte aligned
  Counters counters;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual NodeFacts facts() const = 0;
  // Lays weight `input` out as run() wants it. `plain` is the parameter in checkpoint order and in the weight node's
  // dtype, in host memory; `packed` has facts().packed[input] bytes. On a device without host memory this runs on the
  // host and the device copies. The default copies.
  virtual void pack(size_t input, std::span<const std::byte> plain, std::span<std::byte> packed) const;
  virtual void run(const KernelArguments&) = 0;  // allocates nothing
};

}  // namespace danqing
