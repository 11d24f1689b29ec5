// GFLOP/s a core, by CPU time, of the products of Stable Diffusion 1.5 at 512 x 512, guided (batch 2), and of its
// decoder, beside what the core reaches in multiply-adds alone. --threads=N (1), --weights=f16|bf16|f32 (f32), then
// Google Benchmark's own flags.
#include <benchmark/benchmark.h>
#include <hardware/host.h>

#include <cstdlib>
#include <cstring>

#include "hardware/probe.h"
#include "run/cpu/cpu.h"

namespace danqing {

namespace {

struct Options {
  int threads = 1;
  DType weights = DType::f32;
};

struct Layer {
  const char* part;
  Op op;
  Shape x;  // [N, H, W, C] or [rows, C]
  int64_t outputs, size;
};

const Conv2d kSame{.pad = 1, .pad_end = 1, .has_bias = true};
const Conv2d kHalf{.stride = 2, .pad = 1, .pad_end = 1, .has_bias = true};
const Conv2d kDoubled{.pad = 1, .pad_end = 1, .has_bias = true, .upsample = true};
const Conv2d kPoint{.has_bias = true};
const Linear kLinear{.has_bias = true};
const Linear kGate{.has_bias = true, .activation = Activation::gelu};

const Layer kLayers[] = {
    {"unet", kSame, {2, 64, 64, 4}, 320, 3},
    {"unet", kSame, {2, 64, 64, 320}, 320, 3},
    {"unet", kSame, {2, 64, 64, 640}, 320, 3},
    {"unet", kSame, {2, 64, 64, 960}, 320, 3},
    {"unet", kSame, {2, 64, 64, 320}, 4, 3},
    {"unet", kHalf, {2, 64, 64, 320}, 320, 3},
    {"unet", kPoint, {2, 64, 64, 960}, 320, 1},
    {"unet", kSame, {2, 32, 32, 640}, 640, 3},
    {"unet", kSame, {2, 32, 32, 1920}, 640, 3},
    {"unet", kHalf, {2, 32, 32, 640}, 640, 3},
    {"unet", kDoubled, {2, 32, 32, 640}, 640, 3},
    {"unet", kSame, {2, 16, 16, 1280}, 1280, 3},
    {"unet", kSame, {2, 16, 16, 2560}, 1280, 3},
    {"unet", kDoubled, {2, 16, 16, 1280}, 1280, 3},
    {"unet", kSame, {2, 8, 8, 1280}, 1280, 3},
    {"unet", kSame, {2, 8, 8, 2560}, 1280, 3},
    {"unet", kDoubled, {2, 8, 8, 1280}, 1280, 3},
    {"unet", kLinear, {8192, 320}, 320, 0},
    {"unet", kGate, {8192, 320}, 1280, 0},
    {"unet", kLinear, {8192, 1280}, 320, 0},
    {"unet", kLinear, {2048, 640}, 640, 0},
    {"unet", kGate, {2048, 640}, 2560, 0},
    {"unet", kLinear, {2048, 2560}, 640, 0},
    {"unet", kLinear, {512, 1280}, 1280, 0},
    {"unet", kGate, {512, 1280}, 5120, 0},
    {"unet", kLinear, {512, 5120}, 1280, 0},
    {"unet", kLinear, {128, 1280}, 1280, 0},
    {"unet", kLinear, {154, 768}, 640, 0},
    {"unet", kLinear, {1, 320}, 1280, 0},
    {"text", kLinear, {77, 768}, 3072, 0},
    {"decoder", kSame, {1, 64, 64, 4}, 512, 3},
    {"decoder", kSame, {1, 64, 64, 512}, 512, 3},
    {"decoder", kDoubled, {1, 64, 64, 512}, 512, 3},
    {"decoder", kSame, {1, 128, 128, 512}, 512, 3},
    {"decoder", kDoubled, {1, 128, 128, 512}, 512, 3},
    {"decoder", kSame, {1, 256, 256, 512}, 256, 3},
    {"decoder", kSame, {1, 256, 256, 256}, 256, 3},
    {"decoder", kDoubled, {1, 256, 256, 256}, 256, 3},
    {"decoder", kSame, {1, 512, 512, 256}, 128, 3},
    {"decoder", kSame, {1, 512, 512, 128}, 128, 3},
    {"decoder", kSame, {1, 512, 512, 128}, 3, 3},
};

std::string title(const Layer& layer) {
  return std::string(layer.part) + "/" + describe(layer.op) + " " + to_string(layer.x) + " to " +
         std::to_string(layer.outputs);
}

// 64-byte aligned values that are no zeros.
struct Memory {
  explicit Memory(Bytes size) : data(std::aligned_alloc(64, (static_cast<size_t>(size.value) + 127) / 64 * 64)) {
    std::memset(data, 0x3c, static_cast<size_t>(size.value));
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  void* data;
};

void run_layer(benchmark::State& state, const Layer& layer, const Options& options, double peak) {
  Graph graph;
  const Shape weight =
      layer.size ? Shape{layer.outputs, layer.x.back(), layer.size, layer.size} : Shape{layer.outputs, layer.x.back()};
  graph.nodes = {{Input{}, {}, {DType::f32, layer.x}, "x"},
                 {Weight{{{"weight"}}}, {}, {options.weights, weight}, "weight"},
                 {Weight{{{"bias"}}}, {}, {DType::f32, {layer.outputs}}, "bias"}};
  Node node{layer.op, {{0}, {1}, {2}}, {}, "layer"};
  node.type = result(node.op, graph.input_types(node));
  graph.nodes.push_back(node);

  cpu::Ways ways = cpu::detect(options.threads);
  const std::unique_ptr<Kernel> kernel = cpu::make_kernel(graph, node, ways);
  const NodeFacts facts = kernel->facts();
  Memory x(size_of(graph.nodes[0].type)), w(facts.packed[1]), bias(facts.packed[2]), out(size_of(node.type));
  Memory scratch(facts.scratch);
  const Tensor in[] = {{x.data, graph.nodes[0].type}, {w.data, graph.nodes[1].type}, {bias.data, graph.nodes[2].type}};
  const KernelArguments arguments{in, {out.data, node.type}, scratch.data, {}};
  kernel->run(arguments);
  for (auto _ : state) kernel->run(arguments);

  const double flops = work_of(graph, node).products.value * static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(flops / 1e9, Counter::kIsRate);
  state.counters["share"] = Counter(flops / peak, Counter::kIsRate);
}

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&](const std::string& name) { return flag.starts_with(name) ? flag.substr(name.size()) : ""; };
    if (const std::string n = value("--threads="); !n.empty()) options.threads = std::atoi(n.c_str());
    if (const auto type = dtype_named(value("--weights="))) options.weights = *type;
  }
  const double peak = estimate(this_host(), 1).roofs.f32.value;
  benchmark::AddCustomContext("peak of one core", to_string(FlopsPerSecond(peak)));
  for (const Layer& layer : kLayers)
    benchmark::RegisterBenchmark(title(layer).c_str(), run_layer, layer, options, peak)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

}  // namespace danqing

int main(int argc, char** argv) { return danqing::main(argc, argv); }
