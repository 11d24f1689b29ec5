// What a program will cost on a machine: order, placement, bytes, seconds and what binds them; before any weight is
// loaded. Memory is exact: run allocates what stands here and nothing else that grows with the work.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "hardware/machine.h"
#include "plan/backend.h"
#include "plan/roofline.h"

namespace danqing {

enum class Place : uint8_t { none, weights, arena, io };

// Where a value lives. io: `offset` is an index into Plan::io. A reshaped value shares the place of what it reshapes.
struct Slot {
  Place place = Place::none;
  int64_t offset = 0, bytes = 0;
};

struct NodePlan {
  Slot slot;
  Slot scratch;  // in the arena, for the time of the node
  Work work;
  Cost cost;
};

struct PhasePlan {
  std::string name, component;
  int64_t times = 1;
  std::vector<NodePlan> nodes;  // one a node of the phase's graph
  Bytes weights, arena;
  Work work;   // of one run
  Cost cost;   // of one run
  Bytes peak;  // most that is allocated while it runs
};

// What crosses the border of a phase: given by the host, carried over, or read by the host; and the host's own buffers.
struct IoTensor {
  std::string name;
  Bytes bytes;
  size_t first_phase = 0, last_phase = 0;  // alive from the start of one to the end of the other
};

// Weights of a component come in before its first phase and go after its last one.
struct LoadPlan {
  std::string component;
  size_t first_phase = 0, last_phase = 0;
  Bytes weights;
  Bytes block;    // while loading: room for reading ...
  Bytes staging;  // ... and, that included, for the largest tensor that is rearranged
  Bytes peak;     // most that is allocated while loading
  Bytes file;     // read from disk
  Cost cost;
};

struct Plan {
  std::vector<PhasePlan> phases;
  std::vector<IoTensor> io;
  std::vector<LoadPlan> loads;
  Bytes peak;                      // most that is allocated at once, the process's base not counted
  Bytes weights, arena, io_bytes;  // at the moment of the peak
  Work work;                       // of the whole request
  Cost cost;                       // of the whole request, loading included
};

inline constexpr int64_t kReadBlock = 8 << 20;  // bytes of a file read at once while loading

struct PlanInput {
  const Program& program;
  const Backend& backend;
  const Machine& machine;
  std::map<std::string, Bytes> file_bytes;  // a component's bytes in its file, for the time of loading
  std::map<std::string, Bytes> extra_block;  // a component's further room for reading (adapters)
};
Plan plan(const PlanInput&);

}  // namespace danqing
