// What a backend says of an op before any weight is loaded: the facts that a plan needs and only the backend knows.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace danqing {

struct NodeFacts {
  Bytes scratch;  // needed only while the op runs; the plan places it in the arena
  std::vector<Bytes>
      packed;           // per input: bytes of that weight as this op wants it held; 0 for inputs that are no weights
  bool copied = false;  // weights are held in checkpoint order: loading needs no second copy to rearrange them from
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual NodeFacts facts(const Graph&, const Node&) const = 0;
};

}  // namespace danqing
