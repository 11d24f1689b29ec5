#include "explain/summary.h"

#include <algorithm>
#include <map>

#include "plan/arena.h"

namespace danqing {

namespace {

Bytes resident(const Plan& plan, size_t phase) {
  Bytes sum;
  for (const LoadPlan& load : plan.loads)
    if (load.first_phase <= phase && phase <= load.last_phase) sum += load.weights;
  return sum;
}

Work operator*(Work w, int64_t times) {
  w.products.value *= static_cast<double>(times), w.vector.value *= static_cast<double>(times);
  w.read.value *= times, w.written.value *= times;
  return w;
}

PhaseRow loading(const Subject& s) {
  PhaseRow row;
  row.name = "load";
  for (const LoadPlan& load : s.plan.loads) {
    row.work.read += load.file;
    row.cost += load.cost;
    if (load.peak + s.base <= row.peak) continue;
    row.peak = load.peak + s.base, row.arena = load.staging;
    row.weights = Bytes();  // those loaded before it and kept, and its own
    for (const LoadPlan& other : s.plan.loads)
      if (&other <= &load && other.last_phase >= load.first_phase) row.weights += other.weights;
    row.io = load.peak - row.weights - row.arena;
  }
  row.total = row.cost;
  if (!s.trace) return row;
  row.measured_times = 1, row.measured = Seconds();
  for (const LoadTrace& load : s.trace->loads) *row.measured += load.seconds;
  return row;
}

PhaseRow phase_row(const Subject& s, size_t i) {
  const PhasePlan& p = s.plan.phases[i];
  PhaseRow row;
  row.name = p.name, row.times = p.times;
  row.peak = p.peak + s.base, row.weights = resident(s.plan, i), row.arena = p.arena;
  row.io = p.peak - row.weights - p.arena;
  row.work = p.work, row.cost = p.cost, row.total = p.cost * static_cast<double>(p.times);
  if (s.trace && i < s.trace->phases.size())
    row.measured_times = s.trace->phases[i].times, row.measured = s.trace->phases[i].seconds;
  return row;
}

DType activations_of(const Graph& graph, const Node& node) {
  return node.in.empty() ? node.type.dtype : graph[node.in[0]].type.dtype;
}

void add_ops(const Subject& s, size_t phase, Summary& out) {
  const PhasePlan& planned = s.plan.phases[phase];
  const Graph& graph = s.program.phases[phase].graph;
  const bool traced =
      s.trace && phase < s.trace->phases.size() && s.trace->phases[phase].node_seconds.size() == graph.nodes.size();
  std::map<OpKind, OpRow> kinds;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodePlan& node = planned.nodes[i];
    if (node.cost.seconds.value == 0) continue;
    OpRow row{planned.name,
              kind_of(graph.nodes[i].op),
              &graph.nodes[i],
              1,
              node.work * planned.times,
              node.cost.seconds * static_cast<double>(planned.times),
              {}};
    if (traced) row.measured = s.trace->phases[phase].node_seconds[i];
    OpRow& kind = kinds.try_emplace(row.kind, OpRow{planned.name, row.kind}).first->second;
    ++kind.count, kind.work += row.work, kind.predicted += row.predicted;
    if (traced) kind.measured = kind.measured.value_or(Seconds()) + *row.measured;
    out.ops.push_back(std::move(row));
  }
  for (auto& [_, kind] : kinds) out.kinds.push_back(std::move(kind));
}

// The type in which most products are computed.
DType arithmetic_of(const Subject& s) {
  std::map<DType, double> products;
  for (size_t p = 0; p < s.plan.phases.size(); ++p) {
    const Graph& graph = s.program.phases[p].graph;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      products[activations_of(graph, graph.nodes[i])] +=
          s.plan.phases[p].nodes[i].work.products.value * static_cast<double>(s.plan.phases[p].times);
  }
  const auto most = std::ranges::max_element(products, {}, [](const auto& entry) { return entry.second; });
  return most == products.end() || most->second == 0 ? DType::f32 : most->first;
}

// What the plan holds when, at predicted times; and when the most.
void follow_memory(const Subject& s, Summary& out) {
  const Plan& plan = s.plan;
  Seconds at;
  const auto note = [&](Bytes held, const std::string& what) { out.planned_memory.push_back({at, held, what}); };
  const auto peak = [&](Bytes held, const std::string& what) {
    if (held == plan.peak && out.peak_during.empty()) out.peak_during = what;
  };
  for (size_t i = 0; i < plan.phases.size(); ++i) {
    const PhasePlan& phase = plan.phases[i];
    for (const LoadPlan& load : plan.loads) {
      if (load.first_phase != i) continue;
      note(load.peak, "load " + load.component), peak(load.peak, "load " + load.component);
      at += load.cost.seconds;
      note(load.peak - load.staging, "loaded " + load.component);
    }
    note(phase.peak, phase.name), peak(phase.peak, phase.name);
    at += phase.cost.seconds * static_cast<double>(phase.times);
    Bytes kept = phase.peak - phase.arena;
    for (const IoTensor& t : plan.io)
      if (t.last_phase == i && t.first_phase <= i) kept -= Bytes(aligned(t.bytes.value));
    for (const LoadPlan& load : plan.loads)
      if (load.last_phase == i) kept -= load.weights;
    note(std::max(Bytes(), kept), "after " + phase.name);
  }
}

}  // namespace

Seconds Summary::computing() const {
  Seconds sum;
  for (size_t i = 1; i < phases.size(); ++i) sum += phases[i].seconds();
  return sum;
}

Summary summarise(const Subject& s) {
  DANQING_CHECK(s.plan.phases.size() == s.program.phases.size());
  Summary out;
  out.phases.push_back(loading(s));
  out.work = s.plan.work;
  out.work.read += out.phases.front().work.read;
  for (size_t i = 0; i < s.plan.phases.size(); ++i) {
    out.phases.push_back(phase_row(s, i));
    add_ops(s, i, out);
  }
  std::ranges::stable_sort(out.ops, std::greater{}, &OpRow::seconds);
  out.arithmetic = arithmetic_of(s);
  out.roof = roof(s.machine, out.arithmetic);
  follow_memory(s, out);
  return out;
}

std::vector<OpRow> by_kind(const Summary& summary) {
  std::map<OpKind, OpRow> sums;
  for (const OpRow& row : summary.kinds) {
    OpRow& sum = sums.try_emplace(row.kind, OpRow{"", row.kind}).first->second;
    sum.count += row.count, sum.work += row.work, sum.predicted += row.predicted;
    if (row.measured) sum.measured = sum.measured.value_or(Seconds()) + *row.measured;
  }
  std::vector<OpRow> rows;
  for (auto& [_, sum] : sums) rows.push_back(std::move(sum));
  std::ranges::stable_sort(rows, std::greater{}, &OpRow::seconds);
  return rows;
}

Seconds seconds_on(const Subject& s, const Machine& machine) {
  Seconds sum;
  for (const LoadPlan& load : s.plan.loads) sum += load_cost(load.file, load.weights, machine).seconds;
  for (size_t p = 0; p < s.plan.phases.size(); ++p) {
    const PhasePlan& phase = s.plan.phases[p];
    const Graph& graph = s.program.phases[p].graph;
    Seconds once;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      once += cost_of(graph.nodes[i].op, phase.nodes[i].work, activations_of(graph, graph.nodes[i]), machine).seconds;
    sum += once * static_cast<double>(phase.times);
  }
  return sum;
}

std::string_view plural(OpKind kind) {
  static constexpr std::string_view names[] = {"convolutions", "linear layers", "attention", "norms and moves"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace danqing
