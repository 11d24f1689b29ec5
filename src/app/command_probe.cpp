#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "base/error.h"
#include "hardware/host.h"
#include "hardware/machine_json.h"
#include "hardware/probe.h"
#include "pipeline/calibrate.h"

namespace danqing {

static int threads_from(const std::string& text) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 0 || value > 1024)
    throw Error(Fault::request, "--threads: \"" + text + "\" is not a whole number from 0 to 1024");
  return value;
}

int command_probe(const Arguments& arguments) {
  bool json = false;
  int threads = 0;
  std::string disk;
  const Usage usage{"probe",
                    "danqing probe [options]",
                    {{"--json", "", "for scripts", [&](auto&) { json = true; }},
                     {"--threads", "N", "0: all cores", [&](auto& v) { threads = threads_from(v); }},
                     {"--disk", "PATH", "file or folder whose reading speed counts (default: the models)",
                      [&](auto& v) { disk = v; }}},
                    nullptr,
                    {}};
  if (!parse(usage, arguments)) return kDone;
  const Host host = this_host();
  const Machine machine = probe_and_calibrate(host, threads, disk);
  const std::string path = machine_cache_path();
  if (!path.empty()) save_machine(path, host, machine);
  if (json) return std::printf("%s\n", to_json(machine).dump(2).c_str()), kDone;
  const auto share = [](double s) { return static_cast<int>(s * 100 + 0.5); };
  std::printf("%s, %d threads\n  f32   %s\n  bf16  %s\n  int8  %s\n  memory %s, disk %s\n", machine.name.c_str(),
              machine.threads, to_string(machine.roofs.f32).c_str(),
              machine.roofs.bf16.value > 0 ? to_string(machine.roofs.bf16).c_str() : "none",
              machine.roofs.int8.value > 0 ? to_string(machine.roofs.int8).c_str() : "none",
              to_string(machine.bandwidth).c_str(), to_string(machine.disk).c_str());
  std::printf(
      "  reached: convolution %d %%, linear %d %%, attention %d %% of the roof; norms and sums %d %% of the "
      "bandwidth\n",
      share(machine.efficiency.convolution), share(machine.efficiency.linear), share(machine.efficiency.attention),
      share(machine.efficiency.memory_bound));
  if (!path.empty()) std::printf("kept in %s\n", path.c_str());
  return kDone;
}

}  // namespace danqing
