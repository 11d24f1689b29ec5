// Charts as inline SVG. Colours are the page's CSS variables, so they follow its light or dark scheme.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "run/trace.h"

namespace danqing {

// Text for HTML and SVG; control characters become spaces.
std::string escaped(const std::string& text);

struct Bar {
  std::string label;
  double predicted = 0, measured = 0;  // measured 0: none
  std::string value;                   // what stands behind the bar
};
std::string bars(const std::vector<Bar>&);

// Allocated memory as steps over time, the process's base beneath, the limit as a line where it is near.
std::string timeline(const std::vector<MemoryMoment>&, Bytes base, Bytes limit);

struct RoofPoint {
  std::string label;
  double intensity = 0;  // FLOP a byte
  double rate = 0;       // FLOP/s
  double weight = 0;     // seconds: the disc's area
};
std::string roofline(const std::vector<RoofPoint>&, double peak, double bandwidth);

}  // namespace danqing
