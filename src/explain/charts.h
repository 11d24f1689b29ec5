// The charts of a report, as inline SVG.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "run/trace.h"

namespace danqing {

struct Bar {
  std::string label;
  double predicted = 0, measured = 0;  // measured 0: none
  std::string value;                   // what stands behind the bar
};
std::string bars(const std::vector<Bar>&);

// Memory held as steps over time, the process's base beneath; the plan dashed behind what was measured; the limit as a
// line, or in words where it lies far above.
struct Timeline {
  std::vector<MemoryMoment> measured, planned;  // measured may be empty
  Bytes base, limit;
};
std::string timeline(const Timeline&);

struct RoofPoint {
  std::string label;
  const char* colour = "--b";
  double intensity = 0;  // FLOP a byte
  double rate = 0;       // FLOP/s
  double weight = 0;     // seconds: the disc's area
};
// Points are numbered in their order, for a key beneath. Points that are not positive are left out.
std::string roofline(const std::vector<RoofPoint>&, double peak, double bandwidth);

}  // namespace danqing
