// The file of measured machines: {"format": 1, "machines": {"<processor>, <n> threads": {machine}}}.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hardware/machine_json.h"
#include "hardware/probe.h"

namespace danqing {
namespace {

using nlohmann::json;

std::string key_of(const Host& host, int threads) {
  return host.cpu + ", " + std::to_string(threads > 0 ? threads : host.threads) + " threads";
}

// The machines of the file; an empty object if there is no file or none that can be understood.
json machines_of(const std::string& path, const Note& note) {
  const auto text = read_text(path);
  if (!text) return json::object();
  const json file = json::parse(*text, nullptr, false);
  if (file.is_object() && file.value("format", json()) == 1 && file.contains("machines") &&
      file["machines"].is_object()) {
    return file["machines"];
  }
  if (note) note(path + " cannot be understood and is ignored: the machine has to be measured again");
  return json::object();
}

}  // namespace

std::string machine_cache_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/danqing/machine.json";  // relative ones are to be ignored
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/danqing/machine.json" : "";
}

std::optional<Machine> load_machine(const std::string& path, const Host& host, int threads, const Note& note) {
  if (path.empty()) return {};
  const json machines = machines_of(path, note);
  const auto it = machines.find(key_of(host, threads));
  if (it == machines.end()) return {};
  try {
    Machine m = machine_from_json(*it, path);
    // Rates are kept; what the process may have changes from run to run.
    m.memory = host.limit;
    m.sources["memory"] = host.limited_by;
    return m;
  } catch (const Error& e) {
    if (note) note(std::string(e.what()) + "; it is ignored and the machine has to be measured again");
    return {};
  }
}

void save_machine(const std::string& path, const Host& host, const Machine& machine) {
  namespace fs = std::filesystem;
  json machines = machines_of(path, {});
  machines[key_of(host, machine.threads)] = to_json(machine);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string draft = path + "." + std::to_string(::getpid()) + ".part";
  {
    std::ofstream out(draft, std::ios::trunc);
    out << json{{"format", 1}, {"machines", machines}}.dump(1, ' ', false, json::error_handler_t::replace) << "\n"
        << std::flush;
    error = out ? std::error_code() : std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(draft, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(draft, ignored);
    throw Error(Fault::file, path + ": the measurement cannot be kept: " + error.message());
  }
}

}  // namespace danqing
