// Plain definitions in double for the tests of kernels.
#pragma once

#include <cmath>

#include "graph/op.h"

namespace danqing::cpu {

inline double activated(Activation a, double x) {
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  switch (a) {
    case Activation::none:
      return x;
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2));
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::quick_gelu:
      return x * sigmoid(1.702 * x);
    case Activation::tanh:
      return std::tanh(x);
  }
  return x;
}

}  // namespace danqing::cpu
