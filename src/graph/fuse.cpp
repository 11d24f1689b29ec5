// A rule looks at one node and the producer of one of its inputs, and answers with the node that does both. The
// producer must have no other reader. The merged node stands where the later of the two stood, so inputs still precede
// users.
#include "graph/fuse.h"

namespace danqing {

namespace {

struct Site {
  const Graph& graph;
  const Node& node;
  size_t input;  // which input of node is looked at
  const Node& producer() const { return graph[node.in[input]]; }
  Node merged(Op op) const { return {std::move(op), producer().in, node.type, producer().name}; }
};
using Rule = std::optional<Node> (*)(const Site&);

std::optional<Node> product_then_activation(const Site& at) {
  const auto* unary = std::get_if<Unary>(&at.node.op);
  if (!unary) return std::nullopt;
  if (const auto* linear = std::get_if<Linear>(&at.producer().op);
      linear && linear->activation == Activation::none && linear->combine == Combine::none)
    return at.merged(Linear{linear->has_bias, unary->kind});
  if (const auto* conv = std::get_if<Conv2d>(&at.producer().op);
      conv && conv->activation == Activation::none && !conv->residual) {
    Conv2d both = *conv;
    both.activation = unary->kind;
    return at.merged(both);
  }
  return std::nullopt;
}

// add(product, x) or mul(product, x): the other operand becomes the product's extra input.
std::optional<Node> product_then_combine(const Site& at) {
  const bool adds = std::holds_alternative<Add>(at.node.op);
  if (!adds && !std::holds_alternative<Mul>(at.node.op)) return std::nullopt;
  const Value other = at.node.in[1 - at.input];
  if (at.producer().type != at.node.type || at.graph[other].type != at.node.type) return std::nullopt;
  if (const auto* linear = std::get_if<Linear>(&at.producer().op); linear && linear->combine == Combine::none) {
    Node both = at.merged(Linear{linear->has_bias, linear->activation, adds ? Combine::add : Combine::mul});
    both.in.push_back(other);
    return both;
  }
  if (const auto* conv = std::get_if<Conv2d>(&at.producer().op); conv && adds && !conv->residual) {
    Conv2d op = *conv;
    op.residual = true;
    Node both = at.merged(op);
    both.in.push_back(other);
    return both;
  }
  return std::nullopt;
}

std::optional<Node> norm_then_silu(const Site& at) {
  const auto* unary = std::get_if<Unary>(&at.node.op);
  const auto* norm = std::get_if<GroupNorm>(&at.producer().op);
  if (!unary || unary->kind != Activation::silu || !norm || norm->silu) return std::nullopt;
  GroupNorm both = *norm;
  both.silu = true;
  return at.merged(both);
}

constexpr Rule kRules[] = {product_then_activation, product_then_combine, norm_then_silu};

std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.nodes.size());
  for (const Node& node : graph.nodes)
    for (Value v : node.in) ++readers[static_cast<size_t>(v.id)];
  for (Value v : graph.outputs) readers[static_cast<size_t>(v.id)] += 2;  // an output must stay
  return readers;
}

// Drops what no output needs (merged producers among it) and renumbers.
Graph compact(const Graph& graph) {
  std::vector<bool> needed(graph.nodes.size());
  for (Value v : graph.outputs) needed[static_cast<size_t>(v.id)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (needed[i])
      for (Value v : graph.nodes[i].in) needed[static_cast<size_t>(v.id)] = true;
  Graph out;
  std::vector<Value> moved(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    Node node = graph.nodes[i];
    for (Value& v : node.in) v = moved[static_cast<size_t>(v.id)];
    moved[i] = {out.size()};
    out.nodes.push_back(std::move(node));
  }
  for (Value v : graph.outputs) out.outputs.push_back(moved[static_cast<size_t>(v.id)]);
  return out;
}

std::optional<Node> fused(const Graph& graph, const Node& node, std::vector<int>& readers) {
  for (Rule rule : kRules) {
    for (size_t k = node.in.size(); k-- > 0;) {
      int& producer_readers = readers[static_cast<size_t>(node.in[k].id)];
      if (producer_readers != 1) continue;
      if (std::optional<Node> both = rule({graph, node, k})) {
        producer_readers = 0;
        return both;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Graph fuse(const Graph& graph) {
  Graph out = graph;
  std::vector<int> readers = count_readers(out);
  for (Node& node : out.nodes) {
    const std::string output_name = node.name;
    const bool is_output = readers[static_cast<size_t>(&node - out.nodes.data())] >= 2;
    while (std::optional<Node> both = fused(out, node, readers)) {
      node = std::move(*both);
      if (is_output) node.name = output_name;
    }
  }
  return compact(out);
}

}  // namespace danqing
