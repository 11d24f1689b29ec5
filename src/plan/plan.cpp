#include "plan/plan.h"

#include <algorithm>
#include <optional>

#include "plan/arena.h"

namespace danqing {

namespace {

// The value whose place `v` shares, through reshapes.
Value root_of(const Graph& graph, Value v) {
  while (std::holds_alternative<Reshape>(graph[v].op)) v = graph[v].in[0];
  return v;
}

size_t index(Value v) { return static_cast<size_t>(v.id); }

// Bytes stop at the largest number there is.
Work all_runs(const Work& one, int64_t times) {
  const auto n = static_cast<double>(times);
  const auto bytes = [n](Bytes b) {
    return Bytes(static_cast<int64_t>(std::min(static_cast<double>(b.value) * n, 9e18)));
  };
  return {Flops(one.products.value * n), Flops(one.vector.value * n), bytes(one.read), bytes(one.written)};
}

// Collects what crosses borders, with the phases that need it.
class Borders {
 public:
  size_t add(const std::string& name, Bytes bytes, size_t first_phase, size_t last_phase) {
    auto at = std::ranges::find(io_, name, &IoTensor::name);
    if (at == io_.end()) at = io_.insert(at, {name, bytes, first_phase, last_phase});
    DANQING_CHECK(at->bytes == bytes);
    at->last_phase = std::max(at->last_phase, last_phase);
    return static_cast<size_t>(at - io_.begin());
  }
  std::vector<IoTensor> take() { return std::move(io_); }

 private:
  std::vector<IoTensor> io_;
};

class PhasePlanner {
 public:
  PhasePlanner(const PlanInput& input, const Phase& phase, size_t number, Borders& borders)
      : input_(input), phase_(phase), graph_(phase.graph), number_(number), borders_(borders) {
    out_.name = phase.name, out_.component = phase.component, out_.times = phase.times;
    out_.nodes.resize(graph_.nodes.size());
  }

  PhasePlan plan() {
    place_borders();
    collect();
    place_arena();
    share_reshapes();
    return std::move(out_);
  }
  int64_t staging() const { return staging_; }

 private:
  NodePlan& node_plan(Value v) { return out_.nodes[index(v)]; }

  void place_borders() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (std::holds_alternative<Input>(node.op)) border({static_cast<int>(i)}, node);
    }
    for (Value v : graph_.outputs) border(root_of(graph_, v), graph_[v]);
  }

  void border(Value at, const Node& node) {
    DANQING_CHECK(node_plan(at).slot.place == Place::none);  // two names for one value would lose the first
    const size_t io = borders_.add(node.name, size_of(node.type), number_, number_);
    node_plan(at).slot = {Place::io, static_cast<int64_t>(io), size_of(node.type).value};
  }

  // Facts, work and cost of every node; lifetimes of what goes into the arena; offsets of the weights.
  void collect() {
    for (int i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.nodes[static_cast<size_t>(i)];
      NodePlan& planned = out_.nodes[static_cast<size_t>(i)];
      planned.work = work_of(graph_, node);
      planned.cost = cost_of(node.op, planned.work, activations_of(node), input_.machine);
      out_.work += planned.work;
      out_.cost += planned.cost;
      const NodeFacts facts = input_.backend.facts(graph_, node);
      for (size_t k = 0; k < node.in.size(); ++k) {
        if (std::holds_alternative<Weight>(graph_[node.in[k]].op)) place_weight(node.in[k], facts, k);
        touch(node.in[k], i);
      }
      if (facts.scratch.value) {
        planned.scratch = {Place::arena, static_cast<int64_t>(lifetimes_.size()), facts.scratch.value};
        lifetimes_.push_back({i, i, facts.scratch.value});
      }
      const bool owns = !std::holds_alternative<Input>(node.op) && !std::holds_alternative<Weight>(node.op) &&
                        !std::holds_alternative<Reshape>(node.op);
      if (owns && planned.slot.place == Place::none) {
        planned.slot = {Place::arena, static_cast<int64_t>(lifetimes_.size()), size_of(node.type).value};
        lifetimes_.push_back({i, i, planned.slot.bytes});
      }
    }
  }

  DType activations_of(const Node& node) const {
    return node.in.empty() ? node.type.dtype : graph_[node.in[0]].type.dtype;
  }

  void touch(Value v, int reader) {
    const Slot& slot = node_plan(root_of(graph_, v)).slot;
    if (slot.place == Place::arena) lifetimes_[static_cast<size_t>(slot.offset)].last = reader;
  }

  void place_weight(Value v, const NodeFacts& facts, size_t input) {
    NodePlan& planned = node_plan(v);
    const int64_t bytes = facts.packed.at(input).value, plain = size_of(graph_[v].type).value;
    if (planned.slot.place == Place::weights) {  // read by several ops: all must want it the same way
      DANQING_CHECK(planned.slot.bytes == bytes);
      return;
    }
    planned.slot = {Place::weights, out_.weights.value, bytes};
    out_.weights += Bytes(aligned(bytes));
    if (graph_[v].type.shape.rank() > 1 && !facts.copied) staging_ = std::max(staging_, aligned(plain));
  }

  void place_arena() {
    const Arena arena = place(lifetimes_);
    out_.arena = Bytes(arena.bytes);
    for (NodePlan& planned : out_.nodes)
      for (Slot* slot : {&planned.slot, &planned.scratch})
        if (slot->place == Place::arena) slot->offset = arena.offsets[static_cast<size_t>(slot->offset)];
  }

  void share_reshapes() {
    for (int i = 0; i < graph_.size(); ++i)
      if (std::holds_alternative<Reshape>(graph_.nodes[static_cast<size_t>(i)].op))
        out_.nodes[static_cast<size_t>(i)].slot = node_plan(root_of(graph_, {i})).slot;
  }

  const PlanInput& input_;
  const Phase& phase_;
  const Graph& graph_;
  size_t number_;
  Borders& borders_;
  PhasePlan out_;
  std::vector<Lifetime> lifetimes_;
  int64_t staging_ = 0;
};

class Planner {
 public:
  explicit Planner(const PlanInput& input) : input_(input) {}

  Plan plan() {
    Borders borders;
    for (size_t i = 0; i < input_.program.phases.size(); ++i) {
      const Phase& phase = input_.program.phases[i];
      PhasePlanner planner(input_, phase, i, borders);
      out_.phases.push_back(planner.plan());
      add_to_load(out_.phases.back(), i, Bytes(planner.staging()));
    }
    for (const HostBuffer& buffer : input_.program.host)
      borders.add(buffer.name, buffer.bytes, number_of(buffer.first_phase), number_of(buffer.last_phase));
    out_.io = borders.take();
    find_peaks();
    add_up();
    return std::move(out_);
  }

 private:
  void add_to_load(const PhasePlan& phase, size_t number, Bytes staging) {
    auto at = std::ranges::find(out_.loads, phase.component, &LoadPlan::component);
    if (at == out_.loads.end()) {
      LoadPlan load;
      load.component = phase.component, load.first_phase = number, load.block = Bytes(kReadBlock);
      if (const auto extra = input_.extra_block.find(phase.component); extra != input_.extra_block.end())
        load.block += Bytes(aligned(extra->second.value));
      at = out_.loads.insert(at, load);
    }
    at->last_phase = number;
    at->weights += phase.weights;
    at->staging = std::max(at->staging, staging + at->block);
  }

  size_t number_of(const std::string& phase) const {
    return static_cast<size_t>(&input_.program.phase(phase) - input_.program.phases.data());
  }

  Bytes io_during(size_t phase) const {
    Bytes sum;
    for (const IoTensor& t : out_.io)
      if (t.first_phase <= phase && phase <= t.last_phase) sum += Bytes(aligned(t.bytes.value));
    return sum;
  }

  // Tensors that were there before the phase began: those it starts itself come after its weights are loaded.
  Bytes io_before(size_t phase) const {
    Bytes sum;
    for (const IoTensor& t : out_.io)
      if (t.first_phase < phase && phase <= t.last_phase) sum += Bytes(aligned(t.bytes.value));
    return sum;
  }

  void find_peaks() {
    for (size_t i = 0; i < out_.phases.size(); ++i) {
      Bytes resident;
      for (LoadPlan& load : out_.loads) {
        if (load.first_phase == i) {
          load.peak = resident + load.weights + load.staging + io_before(i);
          raise_peak(load.peak, resident + load.weights, load.staging, io_before(i));
        }
        if (load.first_phase <= i && i <= load.last_phase) resident += load.weights;
      }
      PhasePlan& phase = out_.phases[i];
      phase.peak = resident + phase.arena + io_during(i);
      raise_peak(phase.peak, resident, phase.arena, io_during(i));
    }
  }

  void raise_peak(Bytes total, Bytes weights, Bytes arena, Bytes io) {
    if (total <= out_.peak) return;
    out_.peak = total, out_.weights = weights, out_.arena = arena, out_.io_bytes = io;
  }

  void add_up() {
    for (LoadPlan& load : out_.loads) {
      const auto file = input_.file_bytes.find(load.component);
      load.file = file == input_.file_bytes.end() ? load.weights : file->second;
      load.cost = load_cost(load.file, load.weights, input_.machine);
      out_.cost += load.cost;
    }
    for (const PhasePlan& phase : out_.phases) {
      out_.cost += phase.cost * static_cast<double>(phase.times);
      out_.work += all_runs(phase.work, phase.times);
    }
  }

  const PlanInput& input_;
  Plan out_;
};

}  // namespace

Plan plan(const PlanInput& input) { return Planner(input).plan(); }

}  // namespace danqing
