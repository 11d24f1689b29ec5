// What this host is, found without measuring: processor, the share of it that this process may use, memory and its
// limits. All from /proc, /sys and hwloc; nothing here fails: what cannot be found stays 0 or false.
#pragma once

#include <string>

#include "base/units.h"
#include "hardware/machine.h"
#include "hardware/text_file.h"

namespace danqing {

// From the flags of /proc/cpuinfo, not from cpuid: the kernel lists only what it also saves across switches.
struct Isa {
  bool avx2 = false, avx512 = false, avx512_bf16 = false, vnni = false, amx_bf16 = false, amx_int8 = false;
  bool sve = false, arm_bf16 = false, arm_i8mm = false;  // arm64
  bool bf16_products() const { return avx512_bf16 || amx_bf16 || arm_bf16; }
  bool int8_products() const { return vnni || amx_int8 || arm_i8mm; }
};

struct Topology {
  int cores = 0;  // physical, that this process may run on
  int nodes = 0;  // of memory (NUMA)
  Caches caches;  // of the first core
};

struct Host {
  std::string cpu;  // "AMD EPYC 7B13 (family 25 model 1)"
  int allowed = 1;  // hardware threads the affinity allows
  int threads = 1;  // of these, what the cgroup's quota pays for, rounded down but at least 1
  Isa isa;
  Topology topology;
  Bytes total;             // the machine's memory
  Bytes limit;             // min(total, cgroup v1 or v2, RLIMIT_AS): what this process can ever have
  std::string limited_by;  // "memory of the machine", "cgroup /path", "RLIMIT_AS"
  Bytes available;         // of it, free now (the kernel's MemAvailable, within the limits)
};

Host this_host(const Roots& = {});

// hwloc's view; `synthetic` is a machine in hwloc's notation for tests, empty = this one.
Topology topology(const std::string& synthetic = "");

struct ProcessMemory {
  Bytes now, peak;  // VmRSS, VmHWM
};
ProcessMemory process_memory(const Roots& = {});

// Starts the peak anew at what is used now; false where the kernel does not allow it.
bool reset_peak_memory(const Roots& = {});

}  // namespace danqing
