// Reads parameters from a checkpoint in blocks and converts them to what the graph wants.
#pragma once

#include "model/layout.h"
#include "pipeline/adapters.h"
#include "run/run.h"

namespace danqing {

// Both must outlive the source. Where an adapter changes a parameter, the end of the block holds it whole in f32.
WeightSource weight_source(const Layout&, const Adapters&, int threads);

}  // namespace danqing
