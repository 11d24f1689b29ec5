#include "graph/graph.h"

#include <set>

namespace danqing {

std::vector<TensorType> Graph::input_types(const Node& node) const {
  std::vector<TensorType> types;
  types.reserve(node.in.size());
  for (Value v : node.in) types.push_back((*this)[v].type);
  return types;
}

Work work_of(const Graph& graph, const Node& node) { return work(node.op, graph.input_types(node), node.type); }

Work work_of(const Graph& graph) {
  Work total;
  for (const Node& node : graph.nodes) total += work_of(graph, node);
  return total;
}

void verify(const Graph& graph) {
  std::set<std::string> inputs;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    for (Value v : node.in) DANQING_CHECK(v.id >= 0 && v.id < i);
    if (std::holds_alternative<Input>(node.op)) {
      DANQING_CHECK(!node.name.empty() && inputs.insert(node.name).second);
    } else if (!std::holds_alternative<Weight>(node.op)) {
      DANQING_CHECK(node.type == result(node.op, graph.input_types(node)));
    }
  }
  std::set<std::string> outputs;
  for (Value v : graph.outputs) DANQING_CHECK(v.id >= 0 && v.id < graph.size() && outputs.insert(graph[v].name).second);
}

std::string print(const Graph& graph) {
  std::string text;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    text += "%" + std::to_string(i) + " " + describe(node.op) + "  " + to_string(node.type) + "  (";
    for (size_t k = 0; k < node.in.size(); ++k) text += (k ? ", %" : "%") + std::to_string(node.in[k].id);
    text += ")  " + node.name + "\n";
  }
  for (Value v : graph.outputs) text += "-> %" + std::to_string(v.id) + " " + graph[v].name + "\n";
  return text;
}

}  // namespace danqing
