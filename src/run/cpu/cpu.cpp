#include "run/cpu/cpu.h"

namespace danqing::cpu {

// An op of some microseconds is done before a second thread has woken up; results never depend on the number of
// threads.
static Ways ways_for(const Graph& graph, const Node& node, Ways ways) {
  const Work work = work_of(graph, node);
  const double microseconds = work.products.value / 50e3 + work.vector.value / 5e3 +
                              static_cast<double>((work.read + work.written).value) / 8e3;
  if (microseconds < 20) ways.threads = 1;
  return ways;
}

std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, const Ways& all) {
  const Ways ways = ways_for(graph, node, all);
  Site site{node, graph.input_types(node), {}, ways};
  for (Value v : node.in) site.is_weight.push_back(std::holds_alternative<Weight>(graph[v].op));
  return std::visit(Overload{
                        [](const Input&) -> std::unique_ptr<Kernel> { return nullptr; },
                        [](const Weight&) -> std::unique_ptr<Kernel> { return nullptr; },
                        [](const Reshape&) -> std::unique_ptr<Kernel> { return nullptr; },
                        [&](const auto& op) { return make(op, site); },
                    },
                    node.op);
}

}  // namespace danqing::cpu
