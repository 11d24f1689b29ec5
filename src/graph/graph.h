// A graph is a vector of nodes; a Value is an index. Inputs of a node precede it: order by construction, no cycles.
#pragma once

#include <optional>

#include "graph/op.h"

namespace danqing {

struct Value {
  int id = -1;
  bool operator==(const Value&) const = default;
};

struct Node {
  Op op;
  std::vector<Value> in;
  TensorType type;
  std::string name;  // inputs, outputs and weights: their name; else the scope that built it, for reports
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Value> outputs;

  const Node& operator[](Value v) const { return nodes[static_cast<size_t>(v.id)]; }
  int size() const { return static_cast<int>(nodes.size()); }
  std::vector<TensorType> input_types(const Node&) const;
};

// The node's own work, from the types of its inputs.
Work work_of(const Graph&, const Node&);
Work work_of(const Graph&);

// CHECKs the invariants: inputs precede users, types follow from inputs, names of inputs and outputs are unique.
void verify(const Graph&);

// One line a node: "%12 conv2d stride 2 +bias  [1,32,32,320] f32  (%11, %3)  input_blocks.3.0.op".
std::string print(const Graph&);

}  // namespace danqing
