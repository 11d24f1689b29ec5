// A machine as a planner sees it: plain values, no device behind them. A host, a card of the catalogue and a machine
// that a user made up are the same type. A rate of 0 is "none or unknown"; `sources` says which, and where each value
// comes from (field name -> text).
#pragma once

#include <map>
#include <string>

#include "base/dtype.h"
#include "base/units.h"

namespace danqing {

using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

// Dense products, two FLOPs a multiply-add, with 32-bit accumulation.
struct Roofs {
  FlopsPerSecond f32, f16, bf16, f8, int8;
};

// The share of its roof that a kind of op reaches: of arithmetic for the first three, of bandwidth for the last.
struct Efficiency {
  double convolution = 0, linear = 0, attention = 0, memory_bound = 0;
};

struct Caches {
  Bytes l1, l2, l3;  // l1 and l2 of one core (a GPU: l2 is the chip's), l3 that cores share; 0 = none or unknown
};

struct Machine {
  enum class Kind { cpu, gpu };

  std::string name;
  Kind kind = Kind::cpu;
  Bytes memory;              // what one process can use
  BytesPerSecond bandwidth;  // reading memory
  Roofs roofs;
  bool native_bf16 = false;  // products of bf16 without conversion to f32
  int cores = 0, threads = 0;
  Caches caches;
  BytesPerSecond disk;  // reading a checkpoint, sequentially, not from the page cache
  BytesPerSecond pcie;  // host to card, as achieved; 0 for a host and for unified memory
  Seconds launch;       // what starting one op costs, whatever its size
  Efficiency efficiency;
  std::map<std::string, std::string> sources;
};

// The rate of products whose operands are stored as `type`. A type without units of its own is converted: block
// formats and bf16 or f16 without units run as the widest of bf16, f16, f32 that the machine has units for, 8-bit
// floats likewise unless the machine multiplies them.
FlopsPerSecond roof(const Machine&, DType type);

std::string to_string(BytesPerSecond);  // "42.1 GB/s", decimal as data sheets have it
std::string to_string(FlopsPerSecond);  // "1.20 TFLOP/s"

}  // namespace danqing
