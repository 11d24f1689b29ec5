// Reads parameters from a checkpoint in blocks and converts them to what the graph wants.
#pragma once

#include "model/layout.h"
#include "run/run.h"

namespace danqing {

// The layout must outlive the source.
WeightSource weight_source(const Layout&, int threads);

}  // namespace danqing
