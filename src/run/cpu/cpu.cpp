#include "run/cpu/cpu.h"

namespace danqing::cpu {

std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, const Ways& ways) {
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
