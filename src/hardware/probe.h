// What this host can do, measured: a few seconds, once; the result is kept in the user's cache folder. Without a
// measurement there is an estimate that says so.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hardware/host.h"
#include "hardware/machine.h"

namespace danqing {

struct ProbeOptions {
  int threads = 0;        // 0: as the host allows
  std::string disk_path;  // a file, or a folder whose largest file is read; empty: the disk is not measured
  double seconds = 6;     // about this long, split over what is measured
};

// Measures. Rates of units that the processor lacks are 0; `sources` say what was measured and what was not.
Machine probe(const Host&, const ProbeOptions& = {});

// Defaults for the processor with a multiply-add rate and a memory rate measured in under 50 ms.
Machine estimate(const Host&, int threads = 0);

// Bytes a second of reading a file from the start, 4 MiB at a time, at most 512 MiB, after dropping it from the page
// cache; of a folder the largest file in it. 0 if there is no file of at least 1 MiB that can be read.
BytesPerSecond disk_read_rate(const std::string& file_or_folder);

// $XDG_CACHE_HOME/danqing/machine.json, else ~/.cache/danqing/machine.json; empty if neither variable is set.
std::string machine_cache_path();

using Note = std::function<void(const std::string&)>;

// The machine measured for this processor and thread count (0: as the host allows), if the file has it. A file that
// cannot be understood is ignored with a note.
std::optional<Machine> load_machine(const std::string& path, const Host&, int threads, const Note&);

// Adds to the file, or replaces in it, what was measured; the write is atomic. Throws Error(file).
void save_machine(const std::string& path, const Host&, const Machine&);

// The measured machine if there is one, else the estimate with a note that a probe would be better.
Machine machine_here(const Host&, int threads, const std::string& cache_path, const Note&);

}  // namespace danqing
