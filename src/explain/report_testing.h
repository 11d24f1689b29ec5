// A small fixed program, machine and trace whose reports are known.
#pragma once

#include "explain/report.h"
#include "graph/build.h"
#include "plan/arena.h"

namespace danqing {

class PlainBackend : public Backend {
 public:
  NodeFacts facts(const Graph& graph, const Node& node) const override {
    NodeFacts facts;
    for (Value v : node.in)
      facts.packed.push_back(std::holds_alternative<Weight>(graph[v].op) ? size_of(graph[v].type) : Bytes());
    if (std::holds_alternative<Attention>(node.op)) facts.scratch = Bytes(kMiB);
    return facts;
  }
};

// encode: a linear layer and attention; denoise, ten times: a convolution and a norm.
struct Example {
  Program program;
  Machine machine;
  Plan plan;
  Trace trace;

  Example() {
    program.phases.push_back({"encode", "text", 1, {}});
    const Build text(program.phases[0].graph, {});
    const Value x = text.linear(text.input("ids", {DType::f32, {1, 64, 256}}), "layer", 256);
    text.output("states", text.attention(x, x, x, 4, 4));
    program.phases.push_back({"denoise", "unet", 10, {}});
    const Build unet(program.phases[1].graph, {});
    const Value y = unet.conv(unet.input("noisy", {DType::f32, {1, 64, 64, 64}}), "conv", 128, 3);
    unet.output("prediction", unet.group_norm(y, "norm", 32, 1e-5f));
    program.host.push_back({"host latents", Bytes(kMiB), "encode", "denoise"});

    machine.name = "a <small> machine";
    machine.memory = Bytes(kGiB), machine.bandwidth = BytesPerSecond(10e9), machine.disk = BytesPerSecond(1e9);
    machine.roofs.f32 = FlopsPerSecond(100e9), machine.launch = Seconds(1e-6), machine.cores = machine.threads = 1;
    machine.efficiency = {0.8, 0.8, 0.5, 0.7};
    plan = danqing::plan({program, PlainBackend(), machine, {{"text", Bytes(300000)}, {"unet", Bytes(400000)}}});
    trace_run();
  }

  Subject price() const {
    Subject s{program, plan, machine};
    s.base = Bytes(20 * kMiB), s.limit = Bytes(64 * kMiB);
    s.title = "Small & plain";
    s.request_json =
        R"({"prompt": ["a <b>fox</b> & \"friends\""], "width": 512, "height": 384, "steps": 10, "sampler": "euler", "seed": 7})";
    return s;
  }

  Subject painted() const {
    Subject s = price();
    s.trace = &trace, s.rss_peak = Bytes(34 * kMiB), s.seconds = Seconds(0.12);
    return s;
  }

 private:
  void trace_run() {
    for (const PhasePlan& p : plan.phases) {
      PhaseTrace t{p.name, p.times, p.cost.seconds * (1.25 * static_cast<double>(p.times)), {}};
      for (const NodePlan& n : p.nodes)
        t.node_seconds.push_back(n.cost.seconds * (1.25 * static_cast<double>(p.times)));
      trace.phases.push_back(t);
    }
    trace.loads = {{"text", Seconds(0.002)}, {"unet", Seconds(0.003)}};
    trace.memory = {{Seconds(0), plan.loads[0].peak, "load text"},
                    {Seconds(0.003), plan.phases[0].peak, "encode"},
                    {Seconds(0.02), plan.loads[1].peak, "load unet"},
                    {Seconds(0.03), plan.phases[1].peak, "denoise"},
                    {Seconds(0.12), Bytes(), "after denoise"}};
    trace.allocated_peak = plan.peak;
    trace.seconds = Seconds(0.12);
  }
};

}  // namespace danqing
