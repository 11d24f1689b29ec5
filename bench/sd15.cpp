// A full-size Stable Diffusion 1.5 with random weights, painted once: seconds a step (guidance 7: two evaluations),
// decode, encode, load and peak memory, beside this machine's measured peak and the plan's predictions. The last line
// is JSON.
//   danqing_sd15_bench [--model FILE] [--threads N] [--precision P] [--size WxH] [--steps N] [--batch N]
// Without --model the weights are written once to the cache folder (2.1 GB, f16).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "hardware/host.h"
#include "model/clip.h"
#include "model/inventory.h"
#include "model/unet.h"
#include "model/vae.h"
#include "pipeline/paint.h"
#include "pipeline/workplace.h"
#include "run/cpu/device.h"
#include "weights/convert.h"
#include "weights/writer.h"

namespace danqing {
namespace {

// The parameters of the real model, from the graphs themselves: "unet.out.2.weight" and its whole shape.
std::map<std::string, Shape> parameters() {
  UnetConfig unet_config;
  unet_config.levels = {{320, 1, 8}, {640, 1, 8}, {1280, 1, 8}, {1280, 0, 8}};
  unet_config.middle = {1280, 1, 8};
  const UnetGraphs u = unet(unet_config, {}, {}, "unet");
  Graph text;
  const Build b = Build(text, {})["text"];
  b.output("states", clip_text(b, b.input("ids", {DType::i32, {1, 77}}), {}, {{}}).states.front());
  std::map<std::string, Shape> found;
  for (const Graph& g :
       {u.once, u.each, text, vae_decode({}, {1, 8, 8, 4}, {}, "vae"), vae_encode({}, {1, 64, 64, 3}, {}, "vae")})
    add_parameters(g, found);
  return found;
}

std::string key_of(const std::string& parameter) {
  static const std::map<std::string, std::string> kPrefix{
      {"unet", "model.diffusion_model"}, {"vae", "first_stage_model"}, {"text", "cond_stage_model.transformer"}};
  const size_t dot = parameter.find('.');
  return kPrefix.at(parameter.substr(0, dot)) + parameter.substr(dot);
}

void write_model(const std::string& path) {
  std::vector<TensorOut> tensors;
  for (const auto& [name, shape] : parameters()) tensors.push_back({key_of(name), DType::f16, shape});
  std::fprintf(stderr, "writing random weights to %s ...\n", path.c_str());
  uint32_t state = 1;
  write_safetensors(path, tensors, {}, [&](size_t i, std::span<std::byte> out) {
    const Shape& s = tensors[i].shape;
    const bool bias = tensors[i].name.ends_with("bias"), vector = s.rank() == 1;
    const float scale = std::sqrt(3.f / static_cast<float>(s.rank() > 1 ? s.count() / s[0] : 1));
    std::vector<float> values(static_cast<size_t>(s.count()));
    for (float& v : values) {
      state = state * 1664525u + 1013904223u;
      v = vector ? !bias : scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1);
    }
    from_f32(values, DType::f16, out);
  });
}

struct Options {
  Request request;
  std::string model;
};

Options parse(int argc, char** argv) {
  Options o;
  Request& r = o.request;
  r.prompt = {"a photograph of an astronaut riding a horse"};
  r.width = r.height = 512, r.steps = 2, r.seed = 1, r.sampler = "euler", r.cfg = 7.0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--model")
      o.model = value;
    else if (flag == "--threads")
      r.threads = std::stoi(value);
    else if (flag == "--precision")
      r.precision = value;
    else if (flag == "--size")
      parse_size(value, r);
    else if (flag == "--steps")
      r.steps = std::stoi(value);
    else if (flag == "--batch")
      r.batch = std::stoi(value);
    else
      throw Error(Fault::request, flag + " is not known");
  }
  if (o.model.empty()) {
    const char* home = std::getenv("HOME");
    const std::filesystem::path folder = std::filesystem::path(home ? home : "/tmp") / ".cache" / "danqing";
    std::filesystem::create_directories(folder);
    o.model = (folder / "bench-sd15.safetensors").string();
    if (!std::filesystem::exists(o.model)) write_model(o.model);
  }
  r.model = o.model;
  return o;
}

void print_phase(const Job& job, const Trace& trace, size_t i, double peak) {
  const PhasePlan& planned = job.plan.phases[i];
  const PhaseTrace& t = trace.phases[i];
  const double once = t.seconds.value / static_cast<double>(std::max<int64_t>(1, t.times));
  std::printf("%-9s x%-3lld %8.2f s  predicted %8.2f s  %6.1f GFLOP/s  %3.0f %% of the peak\n", planned.name.c_str(),
              static_cast<long long>(t.times), once, planned.cost.seconds.value,
              planned.work.products.value / once / 1e9, 100 * planned.work.products.value / once / peak);
  std::map<std::string, std::array<double, 3>> kinds;
  for (size_t n = 0; n < planned.nodes.size(); ++n) {
    auto& kind = kinds[std::string(name_of(job.program.phases[i].graph.nodes[n].op))];
    kind[0] += t.node_seconds[n].value / static_cast<double>(std::max<int64_t>(1, t.times));
    kind[1] += planned.nodes[n].work.products.value, kind[2] += planned.nodes[n].cost.seconds.value;
  }
  for (const auto& [name, k] : kinds)
    if (k[0] > 0.01 * once)
      std::printf("    %-11s %8.3f s  predicted %8.3f s  %6.1f GFLOP/s  %3.0f %%\n", name.c_str(), k[0], k[2],
                  k[1] / k[0] / 1e9, 100 * k[1] / k[0] / peak);
}

int bench(int argc, char** argv) {
  const Options o = parse(argc, argv);
  Workplace w =
      workplace_here(o.request, [](const std::string& text) { std::fprintf(stderr, "note: %s\n", text.c_str()); });
  const Prepared prepared = prepare(o.request, w, find_places());
  const Job& job = *prepared.job;
  const auto device = cpu::make_device(w.ways);
  const Painting painting = paint(job, *device);
  const Trace& trace = painting.trace;
  const double peak = roof(w.machine, job.precision.activations).value;
  std::printf("%s, %d threads, weights %s, activations %s, peak %s\n", w.machine.name.c_str(), w.ways.threads,
              std::string(name(job.precision.weights)).c_str(), std::string(name(job.precision.activations)).c_str(),
              to_string(roof(w.machine, job.precision.activations)).c_str());
  nlohmann::json out{{"engine", "danqing " + std::string(name(job.precision.weights))}};
  for (size_t i = 0; i < trace.phases.size(); ++i) {
    print_phase(job, trace, i, peak);
    const PhaseTrace& t = trace.phases[i];
    const double once = t.seconds.value / static_cast<double>(std::max<int64_t>(1, t.times));
    if (t.name == "denoise") out["step_s"] = once * (job.guided && job.choice.in_turn ? 2 : 1);
    if (t.name == "decode") out["vae_s"] = once;
    if (t.name == "encode") out["text_s"] = once;
  }
  double load = 0;
  for (const LoadTrace& l : trace.loads) load += l.seconds.value;
  out["load_s"] = load, out["e2e_s"] = trace.seconds.value;
  out["rss_mib"] = static_cast<double>(process_memory().peak.value) / kMiB;
  std::printf("load %.2f s, whole %.2f s (predicted %.2f), memory %s allocated as planned, %s held by the process\n",
              load, trace.seconds.value, job.plan.cost.seconds.value, to_string(trace.allocated_peak).c_str(),
              to_string(process_memory().peak).c_str());
  std::printf("%s\n", out.dump().c_str());
  return trace.allocated_peak == job.plan.peak ? 0 : 1;
}

}  // namespace
}  // namespace danqing

int main(int argc, char** argv) {
  try {
    return danqing::bench(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "danqing_sd15_bench: %s\n", e.what());
    return 2;
  }
}
