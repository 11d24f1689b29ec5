#include "hardware/host.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "hardware/cgroup.h"

namespace danqing {
namespace {

constexpr int64_t kKiB = 1024;

// The text after "key<tabs>: " on the first line that begins with it.
std::string field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_last_not_of(" \t", colon - 1) + 1 != key.size()) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::string cpu_name(const std::string& cpuinfo) {
  const std::string model = field(cpuinfo, "model name");
  if (!model.empty()) {
    return model + " (family " + field(cpuinfo, "cpu family") + " model " + field(cpuinfo, "model") + ")";
  }
  const std::string part = field(cpuinfo, "CPU part");  // arm64 has no name there
  return part.empty() ? "unknown processor" : "arm64 " + field(cpuinfo, "CPU implementer") + "/" + part;
}

Isa isa_of(const std::string& cpuinfo) {
  const std::string flags = " " + field(cpuinfo, "flags") + " " + field(cpuinfo, "Features") + " ";
  auto has = [&](const std::string& flag) { return flags.find(" " + flag + " ") != std::string::npos; };
  Isa isa;
  isa.avx2 = has("avx2") && has("fma");
  isa.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  isa.avx512_bf16 = has("avx512_bf16");
  isa.vnni = has("avx512_vnni") || has("avx_vnni");
  isa.amx_bf16 = has("amx_bf16");
  isa.amx_int8 = has("amx_int8");
  isa.sve = has("sve");
  isa.arm_bf16 = has("bf16");
  isa.arm_i8mm = has("i8mm");
  return isa;
}

// Members of a list such as "0-3,8".
int count_of(const std::string& list) {
  int64_t count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = first_integer(part);
    const auto last = dash == std::string::npos ? first : first_integer(part.substr(dash + 1));
    if (first && last && *last >= *first && *last < 1 << 20) count += *last - *first + 1;
  }
  return int(count);
}

// "Max address space   unlimited   unlimited   bytes": the soft limit.
std::optional<Bytes> address_space_limit(const std::string& limits) {
  constexpr std::string_view kRow = "Max address space";
  const size_t at = limits.find(kRow);
  if (at == std::string::npos) return {};
  const auto value = first_integer(limits.substr(at + kRow.size(), 64));
  return value && *value > 0 ? std::optional(Bytes(*value)) : std::nullopt;
}

void find_memory(Host& host, const Roots& roots, const CgroupLimits& group) {
  const std::string meminfo = read_text(roots.proc + "/meminfo").value_or("");
  const std::string status = read_text(roots.proc + "/self/status").value_or("");
  host.total = Bytes(value_after(meminfo, "MemTotal").value_or(0) * kKiB);
  host.available = Bytes(value_after(meminfo, "MemAvailable").value_or(0) * kKiB);
  host.limit = host.total;
  host.limited_by = "memory of the machine";
  if (group.memory && *group.memory < host.limit) {
    host.limit = *group.memory;
    host.limited_by = "cgroup " + group.memory_group;
  }
  if (group.available) host.available = std::min(host.available, *group.available);
  if (const auto space = address_space_limit(read_text(roots.proc + "/self/limits").value_or(""))) {
    if (*space < host.limit) {
      host.limit = *space;
      host.limited_by = "RLIMIT_AS";
    }
    const Bytes taken(value_after(status, "VmSize").value_or(0) * kKiB);
    host.available = std::min(host.available, std::max(Bytes(0), *space - taken));
  }
}

struct FreeTopology {
  void operator()(hwloc_topology_t t) const { hwloc_topology_destroy(t); }
};

}  // namespace

Topology topology(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {};
  const std::unique_ptr<hwloc_topology, FreeTopology> t(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) return {};
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) return {};
  auto size_of = [&](hwloc_obj_type_t type) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(raw, type, 0);
    return Bytes(cache ? int64_t(cache->attr->cache.size) : 0);
  };
  Topology out;
  out.cores = std::max(0, hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE));
  out.nodes = std::max(0, hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_NUMANODE));
  out.caches = {size_of(HWLOC_OBJ_L1CACHE), size_of(HWLOC_OBJ_L2CACHE), size_of(HWLOC_OBJ_L3CACHE)};
  return out;
}

Host this_host(const Roots& roots) {
  Host host;
  const std::string cpuinfo = read_text(roots.proc + "/cpuinfo").value_or("");
  const std::string status = read_text(roots.proc + "/self/status").value_or("");
  const CgroupLimits group = cgroup_limits(roots);
  host.cpu = cpu_name(cpuinfo);
  host.isa = isa_of(cpuinfo);
  host.allowed = std::max(1, count_of(field(status, "Cpus_allowed_list")));
  host.threads = group.cpus ? std::clamp(int(std::min(*group.cpus, 1e6)), 1, host.allowed) : host.allowed;
  host.topology = topology();
  // hwloc knows cpusets but not the affinity of this process.
  host.topology.cores = host.topology.cores ? std::min(host.topology.cores, host.allowed) : host.allowed;
  find_memory(host, roots, group);
  return host;
}

ProcessMemory process_memory(const Roots& roots) {
  const std::string status = read_text(roots.proc + "/self/status").value_or("");
  return {Bytes(value_after(status, "VmRSS").value_or(0) * kKiB),
          Bytes(value_after(status, "VmHWM").value_or(0) * kKiB)};
}

bool reset_peak_memory(const Roots& roots) {
  std::ofstream out(roots.proc + "/self/clear_refs");
  out << "5" << std::flush;  // proc(5): 5 resets the peak resident set size
  return out.good();
}

}  // namespace danqing
