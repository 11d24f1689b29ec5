// Seconds of one op: the slowest of arithmetic, memory and launch, each against what the machine achieves on that kind
// of op.
#pragma once

#include <array>

#include "graph/graph.h"
#include "hardware/machine.h"

namespace danqing {

enum class Bound : uint8_t { compute, bandwidth, overhead, disk };
std::string_view name(Bound);

struct Cost {
  Seconds seconds;
  Bound bound = Bound::overhead;
  std::array<double, 4> by_bound{};  // seconds of a whole that each roof binds, summed over its ops
  Cost& operator+=(const Cost&);
};
Cost operator*(Cost, double times);

// Kinds of op that differ in how much of a roof they reach.
enum class OpKind : uint8_t { convolution, linear, attention, memory };
OpKind kind_of(const Op&);
std::string_view name(OpKind);

Cost cost_of(const Op&, const Work&, DType activations, const Machine&);

// Reading `file` bytes and laying them out as `held` bytes of weights.
Cost load_cost(Bytes file, Bytes held, const Machine&);

}  // namespace danqing
