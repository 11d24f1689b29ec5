#include "hardware/meters.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <utility>

#include "hardware/host.h"

namespace danqing {
namespace {

// utime + stime, fields 14 and 15 of /proc/self/stat; the name in field 2 may hold spaces and brackets.
std::optional<double> cpu_ticks(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) rest >> skipped;
  double user = 0, system = 0;
  if (!(rest >> user >> system)) return {};
  return user + system;
}

// The hottest input of the processor's sensors.
std::optional<double> temperature(const Roots& roots) {
  namespace fs = std::filesystem;
  std::optional<double> hottest;
  std::error_code error;
  for (fs::directory_iterator chip(roots.sys + "/class/hwmon", error), end; !error && chip != end;
       chip.increment(error)) {
    const std::string name = read_text(chip->path() / "name").value_or("");
    if (!name.starts_with("coretemp") && !name.starts_with("k10temp") && !name.starts_with("zenpower") &&
        !name.starts_with("cpu_thermal")) {
      continue;
    }
    for (int i = 1; i <= 64; ++i) {
      const auto text = read_text(chip->path() / ("temp" + std::to_string(i) + "_input"));
      if (!text) continue;
      const double degrees = double(first_integer(*text).value_or(0)) / 1000;
      if (degrees > 0 && degrees < 150) hottest = std::max(hottest.value_or(0), degrees);
    }
  }
  return hottest;
}

}  // namespace

Meters::Meters(Roots roots) : roots_(std::move(roots)), ticks_a_second_(double(std::max(1L, ::sysconf(_SC_CLK_TCK)))) {}

Reading Meters::read(Seconds now) {
  Reading out;
  const ProcessMemory memory = process_memory(roots_);
  out.resident = memory.now;
  out.peak = memory.peak;
  if (const auto ticks = cpu_ticks(read_text(roots_.proc + "/self/stat").value_or(""))) {
    out.cpu = Seconds(*ticks / ticks_a_second_);
    if (last_time_ && now > *last_time_) {
      out.busy = std::max(0.0, (out.cpu - *last_cpu_).value / (now - *last_time_).value);
    }
    last_time_ = now;
    last_cpu_ = out.cpu;
  }
  out.read = Bytes(value_after(read_text(roots_.proc + "/self/io").value_or(""), "read_bytes").value_or(0));
  out.temperature = temperature(roots_);
  return out;
}

Reading Meters::read() {
  return read(Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()));
}

}  // namespace danqing
