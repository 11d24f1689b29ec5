#include "pipeline/calibrate.h"

#include <algorithm>
#include <chrono>

#include "graph/build.h"
#include "hardware/probe.h"
#include "pipeline/job.h"
#include "plan/plan.h"
#include "run/cpu/device.h"
#include "run/run.h"

namespace danqing {

namespace {

using Writer = std::function<Value(const Build&, DType activations)>;

// Seconds of one run of a graph of one op, the best of a few: planned and executed as any phase is.
double seconds_of(const Writer& write, Precision precision, Device& device, const Machine& machine, Work& work) {
  Program program;
  program.phases.push_back({"op", "op", 1, {}});
  Graph& graph = program.phases.front().graph;
  const Build b(graph, precision);
  b.output("y", write(b, precision.activations));
  work = work_of(graph);
  const Plan planned = plan({program, device.backend(), machine, {}});
  const WeightSource weights = [](const Weight&, const TensorType&, std::span<std::byte> out, std::span<std::byte>) {
    std::ranges::fill(out, std::byte{0});
  };
  Run run(device, program, planned, weights);
  run.begin("op");
  run.execute();
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const Seconds before = run.elapsed();
    run.execute();
    best = std::min(best, (run.elapsed() - before).value);
  }
  run.end();
  return best;
}

// Time-weighted share of the roof over several shapes: their work over their seconds.
double share_of(const std::vector<Writer>& shapes, Precision precision, Device& device, const Machine& machine,
                bool bytes) {
  double done = 0, seconds = 0;
  for (const Writer& shape : shapes) {
    Work work;
    seconds += seconds_of(shape, precision, device, machine, work);
    done += bytes ? static_cast<double>((work.read + work.written).value) : work.products.value;
  }
  const double rate = bytes ? machine.bandwidth.value : roof(machine, precision.activations).value;
  return rate > 0 && seconds > 0 ? std::clamp(done / seconds / rate, 0.01, 1.0) : 0.5;
}

Writer conv(int64_t side, int64_t in, int64_t out, int64_t n = 2) {
  return [=](const Build& b, DType t) { return b.conv(b.input("x", {t, {n, side, side, in}}), "c", out, 3); };
}
Writer linear(int64_t rows, int64_t in, int64_t out) {
  return [=](const Build& b, DType t) { return b.linear(b.input("x", {t, {2, rows, in}}), "l", out); };
}
Writer attention(int64_t queries, int64_t keys, int64_t width) {
  return [=](const Build& b, DType t) {
    const Value q = b.input("q", {t, {2, queries, width}}), k = b.input("k", {t, {2, keys, width}}),
                v = b.input("v", {t, {2, keys, width}});
    return b.attention(q, k, v, 8, 8);
  };
}
Writer norm(int64_t side, int64_t channels) {
  return [=](const Build& b, DType t) {
    return b.silu(b.group_norm(b.input("x", {t, {2, side, side, channels}}), "n", 32, 1e-5f));
  };
}

}  // namespace

Machine probe_and_calibrate(const Host& host, int threads, const std::string& disk) {
  ProbeOptions options;
  options.threads = threads;
  options.disk_path = disk.empty() ? find_places().models : disk;
  Machine machine = probe(host, options);
  const cpu::Ways ways = cpu::detect(machine.threads);
  const auto device = cpu::make_device(ways);
  const DType type = ways.bf16_products ? DType::bf16 : DType::f32;
  const Precision precision{type, type};
  const auto share = [&](const std::vector<Writer>& shapes, bool bytes) {
    return share_of(shapes, precision, *device, machine, bytes);
  };
  machine.efficiency.convolution =
      share({conv(64, 320, 320), conv(32, 640, 640), conv(16, 1280, 1280), conv(256, 256, 256, 1)}, false);
  machine.efficiency.linear = share({linear(4096, 320, 1280), linear(1024, 640, 640), linear(256, 1280, 5120)}, false);
  machine.efficiency.attention =
      share({attention(4096, 4096, 320), attention(1024, 1024, 640), attention(4096, 77, 320)}, false);
  machine.efficiency.memory_bound = share({norm(64, 320), norm(32, 640), norm(256, 256)}, true);
  Work tiny;
  machine.launch = Seconds(seconds_of(norm(1, 32), precision, *device, machine, tiny));
  machine.sources["launch"] = "measured: a norm of a few values";
  for (const char* field :
       {"efficiency.convolution", "efficiency.linear", "efficiency.attention", "efficiency.memory_bound"})
    machine.sources[field] = "measured with danqing's kernels";
  return machine;
}

}  // namespace danqing
