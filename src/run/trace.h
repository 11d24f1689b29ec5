// What a run did cost, on the same rows as its plan.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace danqing {

struct PhaseTrace {
  std::string name;
  int64_t times = 0;
  Seconds seconds;                    // of all runs
  std::vector<Seconds> node_seconds;  // of all runs, one a node of the phase's graph
};

struct LoadTrace {
  std::string component;
  Seconds seconds;
};

struct MemoryMoment {
  Seconds at;  // since the start
  Bytes allocated;
  std::string what;  // what just changed: "load unet", "denoise", "free unet"
};

struct Trace {
  std::vector<PhaseTrace> phases;
  std::vector<LoadTrace> loads;
  std::vector<MemoryMoment> memory;
  Bytes allocated_peak;
  Seconds seconds;
};

}  // namespace danqing
