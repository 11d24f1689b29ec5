// What is computed, as phases of graphs: no device, no file opened, no byte allocated. An input that bears the name of
// an earlier phase's output is carried over on the device; every other input is given by the host before the phase
// runs.
#pragma once

#include "graph/graph.h"

namespace danqing {

struct Phase {
  std::string name;       // encode, encode_image, prepare, denoise, decode: unique in a program
  std::string component;  // whose weights it needs; phases of one component run one after another
  int64_t times = 1;      // how often it runs for one request
  Graph graph;
};

// Host memory that a request needs besides: sampler's latents, decoded pictures. Counted like all else that grows with the work.
struct HostBuffer {
  std::string name;
  Bytes bytes;
  std::string first_phase, last_phase;
};

struct Program {
  std::vector<Phase> phases;
  std::vector<HostBuffer> host;
  const Phase& phase(const std::string& name) const;
  bool has(const std::string& name) const;
};

}  // namespace danqing
