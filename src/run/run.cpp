#include "run/run.h"

#include <algorithm>
#include <cstring>

#include "plan/arena.h"

namespace danqing {

struct Run::Prepared {
  struct Step {
    Kernel* kernel;
    size_t node;
    std::vector<Tensor> in;
    Tensor out;
    void* scratch;
  };
  std::vector<Step> steps;
};

Run::Run(Device& device, const Program& program, const Plan& plan, WeightSource source)
    : device_(device),
      program_(program),
      plan_(plan),
      source_(std::move(source)),
      start_(std::chrono::steady_clock::now()) {
  weights_.resize(plan.loads.size());
  io_.resize(plan.io.size());
  kernels_.resize(program.phases.size());
  for (const Phase& phase : program.phases)
    trace_.phases.push_back({phase.name, 0, {}, std::vector<Seconds>(phase.graph.nodes.size())});
  device.reset_peak();
}

Run::~Run() = default;

Seconds Run::now() const {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
}

void Run::note(const std::string& what) {
  trace_.memory.push_back({now(), device_.allocated(), what});
  trace_.allocated_peak = device_.allocated_peak();
  trace_.seconds = now();
}

void Run::begin(const std::string& name) {
  current_ = static_cast<size_t>(&program_.phase(name) - program_.phases.data());
  for (const LoadPlan& load : plan_.loads)
    if (load.first_phase == current_) this->load(load);
  for (size_t i = 0; i < plan_.io.size(); ++i)
    if (plan_.io[i].first_phase <= current_ && current_ <= plan_.io[i].last_phase && !io_[i].data())
      io_[i] = Block(device_, Bytes(aligned(plan_.io[i].bytes.value)), plan_.io[i].name);
  arena_ = Block(device_, plan_.phases[current_].arena, name);
  prepare(current_);
  note(name);
}

void Run::end() {
  prepared_.reset();
  arena_ = Block();
  for (size_t i = 0; i < plan_.io.size(); ++i)
    if (plan_.io[i].last_phase == current_) io_[i] = Block();
  for (size_t i = 0; i < plan_.loads.size(); ++i)
    if (plan_.loads[i].last_phase == current_) {
      weights_[i] = Block();
      for (size_t p = 0; p < program_.phases.size(); ++p)
        if (program_.phases[p].component == plan_.loads[i].component) kernels_[p].clear();
    }
  note("after " + program_.phases[current_].name);
}

void Run::load(const LoadPlan& load) {
  const Seconds begun = now();
  Block& block = weights_[static_cast<size_t>(&load - plan_.loads.data())];
  block = Block(device_, load.weights, load.component + " weights");
  double done = 0;
  {
    const Block staging(device_, load.staging, load.component + " loading");
    note("load " + load.component);
    std::byte* weights = block.data();
    for (size_t p = 0; p < program_.phases.size(); ++p) {
      if (program_.phases[p].component != load.component) continue;
      load_phase(p, weights, {staging.data(), static_cast<size_t>(load.staging.value)}, done, load);
      weights += plan_.phases[p].weights.value;
    }
  }
  trace_.loads.push_back({load.component, now() - begun});
  note("loaded " + load.component);
}

void Run::load_phase(size_t p, std::byte* weights, std::span<std::byte> staging, double& done, const LoadPlan& load) {
  const Graph& graph = program_.phases[p].graph;
  const PhasePlan& planned = plan_.phases[p];
  std::vector<bool> loaded(graph.nodes.size());
  kernels_[p].resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    kernels_[p][i] = device_.kernel(graph, node);
    if (!kernels_[p][i]) continue;
    const bool copied = kernels_[p][i]->facts().copied;
    for (size_t k = 0; k < node.in.size(); ++k) {
      const size_t w = static_cast<size_t>(node.in[k].id);
      if (!std::holds_alternative<Weight>(graph.nodes[w].op) || loaded[w]) continue;
      const Node& weight = graph.nodes[w];
      load_weight(*kernels_[p][i], k, weight, planned.nodes[w].slot, copied || weight.type.shape.rank() <= 1, weights,
                  staging, static_cast<size_t>(load.block.value));
      loaded[w] = true;
      done += static_cast<double>(planned.nodes[w].slot.bytes);
      if (on_load) on_load(load.component, done / static_cast<double>(std::max<int64_t>(1, load.weights.value)));
    }
  }
}

void Run::load_weight(const Kernel& kernel, size_t input, const Node& weight, const Slot& slot, bool direct,
                      std::byte* weights, std::span<std::byte> staging, size_t block_size) {
  const auto& op = std::get<Weight>(weight.op);
  const auto block = staging.first(block_size), rest = staging.subspan(block_size);
  if (direct) {
    device_.write(weights + slot.offset, Bytes(slot.bytes),
                  [&](std::span<std::byte> to) { source_(op, weight.type, to, block); });
    return;
  }
  const auto plain = rest.first(static_cast<size_t>(size_of(weight.type).value));
  source_(op, weight.type, plain, block);
  device_.write(weights + slot.offset, Bytes(slot.bytes),
                [&](std::span<std::byte> to) { kernel.pack(input, plain, to); });
}

std::byte* Run::address(const Slot& slot, size_t phase) const {
  switch (slot.place) {
    case Place::arena:
      return arena_.data() + slot.offset;
    case Place::io:
      return io_[static_cast<size_t>(slot.offset)].data();
    case Place::weights: {
      int64_t base = 0;  // phases of one component stand one after another in its block
      for (size_t p = 0; p < phase; ++p)
        if (program_.phases[p].component == program_.phases[phase].component) base += plan_.phases[p].weights.value;
      for (size_t i = 0; i < plan_.loads.size(); ++i)
        if (plan_.loads[i].component == program_.phases[phase].component)
          return weights_[i].data() + base + slot.offset;
      break;
    }
    case Place::none:
      break;
  }
  return nullptr;
}

void Run::prepare(size_t phase) {
  const Graph& graph = program_.phases[phase].graph;
  const PhasePlan& planned = plan_.phases[phase];
  const auto tensor = [&](size_t i) { return Tensor{address(planned.nodes[i].slot, phase), graph.nodes[i].type}; };
  prepared_ = std::make_unique<Prepared>();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!kernels_[phase][i]) continue;
    Prepared::Step step{kernels_[phase][i].get(), i, {}, tensor(i), address(planned.nodes[i].scratch, phase)};
    for (Value v : graph.nodes[i].in) step.in.push_back(tensor(static_cast<size_t>(v.id)));
    prepared_->steps.push_back(std::move(step));
  }
}

void Run::execute(const Counters& counters) {
  PhaseTrace& trace = trace_.phases[current_];
  const Seconds begun = now();
  Seconds last = begun;
  const PhasePlan& planned = plan_.phases[current_];
  double done = 0;
  for (const Prepared::Step& step : prepared_->steps) {
    step.kernel->run({step.in, step.out, step.scratch, counters});
    const Seconds at = now();
    trace.node_seconds[step.node] += at - last;
    last = at;
    done += planned.nodes[step.node].cost.seconds.value;
    if (on_op) on_op(done / std::max(1e-9, planned.cost.seconds.value));
  }
  device_.finish();
  trace.seconds += now() - begun;
  ++trace.times;
}

size_t Run::io_index(const std::string& name) const {
  const auto at = std::ranges::find(plan_.io, name, &IoTensor::name);
  DANQING_CHECK(at != plan_.io.end());
  const auto i = static_cast<size_t>(at - plan_.io.begin());
  DANQING_CHECK(io_[i].data() || at->bytes.value == 0);
  return i;
}

void Run::write(const std::string& name, std::span<const std::byte> host) {
  const size_t i = io_index(name);
  DANQING_CHECK(static_cast<int64_t>(host.size()) == plan_.io[i].bytes.value);
  device_.write(io_[i].data(), plan_.io[i].bytes,
                [&](std::span<std::byte> to) { std::memcpy(to.data(), host.data(), host.size()); });
}

void Run::read(const std::string& name, std::span<std::byte> host) {
  const size_t i = io_index(name);
  DANQING_CHECK(static_cast<int64_t>(host.size()) == plan_.io[i].bytes.value);
  device_.finish();
  device_.read(io_[i].data(), host);
}

std::span<std::byte> Run::host_buffer(const std::string& name) {
  const size_t i = io_index(name);
  return {io_[i].data(), static_cast<size_t>(plan_.io[i].bytes.value)};
}

}  // namespace danqing
