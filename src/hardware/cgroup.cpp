#include "hardware/cgroup.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

namespace danqing {
namespace {

// A hierarchy as mounted, with the files of its version.
struct Hierarchy {
  std::string mount, path;
  bool v2 = false;
};

// "/a/b" -> "/a/b", "/a", "": in a container the path may be absent under the mount, so the root is always tried.
std::vector<std::string> upwards(std::string path) {
  std::vector<std::string> out;
  while (path.size() > 1 || (path.size() == 1 && path != "/")) {
    out.push_back(path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  out.emplace_back();
  return out;
}

void take_memory(CgroupLimits& out, const Hierarchy& h, const std::string& group) {
  const std::string at = h.mount + group + "/";
  const auto limit = first_integer(read_text(at + (h.v2 ? "memory.max" : "memory.limit_in_bytes")).value_or(""));
  if (!limit || *limit <= 0 || *limit > int64_t{1} << 60) return;  // v1 says "none" by a huge number
  if (!out.memory || Bytes(*limit) < *out.memory) {
    out.memory = Bytes(*limit);
    out.memory_group = group.empty() ? "/" : group;
  }
  const auto used = first_integer(read_text(at + (h.v2 ? "memory.current" : "memory.usage_in_bytes")).value_or(""));
  if (!used) return;
  int64_t cache = 0;
  std::istringstream stat(read_text(at + "memory.stat").value_or(""));
  std::string key;
  for (int64_t value = 0; stat >> key >> value;) {
    if (key == (h.v2 ? "inactive_file" : "total_inactive_file")) cache = value;
  }
  const Bytes left(std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cache)));
  out.available = out.available ? std::min(*out.available, left) : left;
}

void take_cpu(CgroupLimits& out, const Hierarchy& h, const std::string& group) {
  const std::string at = h.mount + group + "/";
  double quota = 0, period = 0;
  if (h.v2) {
    std::istringstream(read_text(at + "cpu.max").value_or("")) >> quota >> period;  // "max 100000" reads as 0 0
  } else {
    quota = double(first_integer(read_text(at + "cpu.cfs_quota_us").value_or("")).value_or(0));
    period = double(first_integer(read_text(at + "cpu.cfs_period_us").value_or("")).value_or(0));
  }
  if (quota > 0 && period > 0) out.cpus = std::min(out.cpus.value_or(quota / period), quota / period);
}

}  // namespace

CgroupLimits cgroup_limits(const Roots& roots) {
  CgroupLimits out;
  const std::string mount = roots.sys + "/fs/cgroup";
  std::istringstream lines(read_text(roots.proc + "/self/cgroup").value_or("0::/\n"));
  for (std::string line; std::getline(lines, line);) {  // "number:controllers:/path", v2 has no controllers
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    const bool v2 = controllers == ",,";
    for (const std::string& group : upwards(path)) {
      if (v2 || controllers.find(",memory,") != std::string::npos) {
        take_memory(out, {v2 ? mount : mount + "/memory", path, v2}, group);
      }
      if (v2 || controllers.find(",cpu,") != std::string::npos) {
        take_cpu(out, {v2 ? mount : mount + "/cpu", path, v2}, group);
      }
    }
  }
  return out;
}

}  // namespace danqing
