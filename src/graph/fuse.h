// Rewrites before planning, so that the priced graph is the executed one. The meaning of a graph stays the same.
#pragma once

#include "graph/graph.h"

namespace danqing {

// Applies every rule until none fits: product + activation, product + sum, product * product, group norm + SiLU.
Graph fuse(const Graph&);

}  // namespace danqing
