// What most kernels say of themselves: weights are held as they are, and so much scratch.
#pragma once

#include "run/cpu/cpu.h"

namespace danqing::cpu {

inline NodeFacts plain_facts(const Site& site, Bytes scratch = Bytes(0)) {
  NodeFacts facts{scratch, {}};
  for (size_t i = 0; i < site.in.size(); ++i)
    facts.packed.push_back(site.is_weight[i] ? size_of(site.in[i]) : Bytes(0));
  return facts;
}

// Bug: this op has no kernel for that type.
inline void require_type(const TensorType& t, std::initializer_list<DType> types) {
  for (DType known : types)
    if (t.dtype == known) return;
  throw Bug("no kernel takes " + to_string(t) + " here");
}

}  // namespace danqing::cpu
