#include "pipeline/workplace.h"

#include <algorithm>

#include "hardware/host.h"
#include "hardware/probe.h"

namespace danqing {

// What a run adds to the process besides planned memory: generated kernels, stacks of threads, libraries' own tables.
static constexpr int64_t kGrowth = 20 * kMiB;

Workplace workplace_here(const Request& request, const Note& note) {
  const Host host = this_host();
  Workplace w;
  if (request.threads > host.allowed)
    note("this process may run on " + std::to_string(host.allowed) + " cores; so many threads are used");
  w.ways = cpu::detect(request.threads > 0 ? std::min(request.threads, host.allowed) : host.threads);
  w.machine = machine_here(host, w.ways.threads, machine_cache_path(), note);
  w.base = process_memory().now + Bytes(kGrowth);
  w.limit = host.limit, w.available = host.available;
  if (!request.memory.empty()) {
    const Bytes asked = parse_bytes(request.memory, "--memory");
    w.limit = w.limit.value ? std::min(w.limit, asked) : asked;
  }
  return w;
}

}  // namespace danqing
