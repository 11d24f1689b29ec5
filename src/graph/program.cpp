#include "graph/program.h"

#include <algorithm>

namespace danqing {

bool Program::has(const std::string& name) const {
  return std::ranges::any_of(phases, [&](const Phase& p) { return p.name == name; });
}

const Phase& Program::phase(const std::string& name) const {
  const auto found = std::ranges::find(phases, name, &Phase::name);
  DANQING_CHECK(found != phases.end());
  return *found;
}

}  // namespace danqing
