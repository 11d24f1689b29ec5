// Control-group limits of this process, version 1 and 2: the least over its group and all groups above it.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "hardware/text_file.h"

namespace danqing {

struct CgroupLimits {
  std::optional<Bytes> memory;     // the least limit
  std::optional<Bytes> available;  // the least of limit - used, where used leaves out the file cache
  std::string memory_group;        // the group that sets `memory`
  std::optional<double> cpus;      // quota / period
};

CgroupLimits cgroup_limits(const Roots&);

}  // namespace danqing
