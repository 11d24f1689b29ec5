// Runs one node alone and compares it with a plain reference: on every instruction set of this machine, with one thread
// and with three (bit for bit the same), with guard zones around each buffer. Guards, scratch and the output start as
// NaNs, so that a value read from outside its buffer shows in the result.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "graph/build.h"
#include "run/cpu/cpu.h"
#include "run/cpu/targets.h"

namespace danqing::cpu {

using Values = std::vector<double>;  // of one tensor, row-major

// One value as `type` holds it, and back.
inline void write_value(DType type, double value, std::byte* to) {
  const auto put = [&](auto v) { std::memcpy(to, &v, sizeof v); };
  const auto f = static_cast<float>(value);
  if (type == DType::f32) return put(f);
  if (type == DType::f16) return put(f32_to_f16(f));
  if (type == DType::bf16) return put(f32_to_bf16(f));
  if (type == DType::i32) return put(static_cast<int32_t>(value));
  throw Bug("no test values of type " + std::string(name(type)));
}
inline double read_value(DType type, const std::byte* from) {
  const auto get = [&](auto v) { return std::memcpy(&v, from, sizeof v), v; };
  if (type == DType::f32) return static_cast<double>(get(0.0f));
  if (type == DType::f16) return static_cast<double>(f16_to_f32(get(uint16_t{0})));
  if (type == DType::bf16) return static_cast<double>(bf16_to_f32(get(uint16_t{0})));
  if (type == DType::i32) return get(int32_t{0});
  throw Bug("no test values of type " + std::string(name(type)));
}
inline double rounded(DType type, double value) {
  std::byte held[4];
  write_value(type, value, held);
  return read_value(type, held);
}

// Uniform in [-scale, scale], as `type` holds them.
inline Values random_values(const TensorType& type, uint32_t seed, double scale = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  Values values(static_cast<size_t>(type.shape.count()));
  for (double& v : values) v = rounded(type.dtype, uniform(engine));
  return values;
}

// 64-byte aligned memory between guard zones.
class Guarded {
 public:
  explicit Guarded(Bytes size) : size_(static_cast<size_t>(size.value)), memory_(size_ + 3 * kGuard, std::byte{0xFF}) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = (address + kGuard + 63) / 64 * 64 - address;
  }
  std::byte* data() { return memory_.data() + begin_; }
  std::span<std::byte> span() { return {data(), size_}; }
  bool untouched_outside() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < begin_ || i >= begin_ + size_) && memory_[i] != std::byte{0xFF}) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;
  size_t size_, begin_ = 0;
  std::vector<std::byte> memory_;
};

inline Guarded guarded(const TensorType& type, const Values& values) {
  Guarded memory(size_of(type));
  const int64_t each = bytes_of(type.dtype, 1);
  for (size_t i = 0; i < values.size(); ++i)
    write_value(type.dtype, values[i], memory.data() + static_cast<int64_t>(i) * each);
  return memory;
}

// The last node of a graph, whose inputs are inputs and weights of the graph, with values for each of them.
struct Alone {
  Graph graph;
  std::vector<Values> in = {};  // one an input of the node
  Counters counters = {};

  const Node& node() const { return graph.nodes.back(); }
  const TensorType& type(size_t input) const { return graph[node().in[input]].type; }
  void fill(uint32_t seed, double scale = 1) {
    in.clear();
    for (size_t i = 0; i < node().in.size(); ++i)
      in.push_back(random_values(type(i), seed * 16 + static_cast<uint32_t>(i), scale));
  }
};

// Builds a graph of one node: alone([](Build b) { b.silu(b.input("x", {DType::f32, {3, 5}})); }).
inline Alone alone(const std::function<void(Build)>& build, Precision precision = {}) {
  Alone a;
  build(Build(a.graph, precision));
  verify(a.graph);
  return a;
}

inline Values run_alone(const Alone& a, const Ways& ways) {
  const std::unique_ptr<Kernel> kernel = make_kernel(a.graph, a.node(), ways);
  const NodeFacts facts = kernel->facts();
  EXPECT_EQ(facts.packed.size(), a.node().in.size());
  std::vector<Guarded> memory;
  std::vector<Tensor> in;
  for (size_t i = 0; i < a.in.size(); ++i) {
    EXPECT_EQ(a.in[i].size(), static_cast<size_t>(a.type(i).shape.count()));
    memory.push_back(guarded(a.type(i), a.in[i]));
    if (std::holds_alternative<Weight>(a.graph[a.node().in[i]].op)) {
      Guarded packed(facts.packed[i]);
      kernel->pack(i, memory.back().span(), packed.span());
      memory.back() = std::move(packed);
    } else {
      EXPECT_EQ(facts.packed[i], Bytes(0));
    }
    in.push_back({memory.back().data(), a.type(i)});
  }
  std::vector<std::vector<std::byte>> before;
  for (Guarded& m : memory) before.emplace_back(m.span().begin(), m.span().end());
  Guarded scratch(facts.scratch), out(size_of(a.node().type));

  kernel->run({in, {out.data(), a.node().type}, scratch.data(), a.counters});

  EXPECT_TRUE(scratch.untouched_outside()) << "wrote outside its scratch";
  EXPECT_TRUE(out.untouched_outside()) << "wrote outside its output";
  for (size_t i = 0; i < memory.size(); ++i)
    EXPECT_TRUE(memory[i].untouched_outside() && std::ranges::equal(memory[i].span(), before[i]))
        << "wrote input " << i;
  const TensorType& type = a.node().type;
  Values result(static_cast<size_t>(type.shape.count()));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = read_value(type.dtype, out.data() + static_cast<int64_t>(i) * bytes_of(type.dtype, 1));
  return result;
}

// Calls `f` once for each instruction set that this machine has.
inline void on_every_target(const std::function<void()>& f) {
  for (int64_t targets = hwy::SupportedTargets(), left = targets; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    if ((target & HWY_DISABLED_TARGETS) != 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// |got - want| <= absolute + relative * |want|; the rounding of a bf16 or f16 result is added.
struct Tolerance {
  double absolute = 1e-6, relative = 1e-6;
};

inline void expect_close(const Values& got, const Values& want, DType type, Tolerance t) {
  ASSERT_EQ(got.size(), want.size());
  const double rounding = type == DType::bf16 ? 0x1p-8 : type == DType::f16 ? 0x1p-11 : 0;
  size_t bad = 0, worst = 0;
  double worst_ratio = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = t.absolute + (t.relative + rounding) * std::abs(want[i]);
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    const double ratio = same ? 0 : std::abs(got[i] - want[i]) / allowed;
    if (ratio <= 1) continue;
    if (bad++ == 0 || !(ratio <= worst_ratio)) worst = i, worst_ratio = ratio;
  }
  EXPECT_EQ(bad, 0u) << "of " << got.size() << " values; worst at " << worst << ": got " << got[worst] << ", want "
                     << want[worst] << " (" << worst_ratio << " tolerances off)";
}

inline void expect_kernel(const Alone& a, const Values& want, Tolerance tolerance = {}, Ways ways = {}) {
  SCOPED_TRACE(print(a.graph));
  on_every_target([&] {
    ways.threads = 1;
    const Values one = run_alone(a, ways);
    expect_close(one, want, a.node().type.dtype, tolerance);
    ways.threads = 3;
    const Values three = run_alone(a, ways);
    EXPECT_EQ(0, std::memcmp(one.data(), three.data(), one.size() * sizeof(double))) << "threads change the result";
  });
}

}  // namespace danqing::cpu
