// Cheap live readings of this process and host: a call reads a few files of /proc and /sys, well under a millisecond.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "hardware/text_file.h"

namespace danqing {

struct Reading {
  Bytes resident;                     // VmRSS
  Bytes peak;                         // VmHWM
  Seconds cpu;                        // of all threads, since the process began
  double busy = 0;                    // threads kept busy since the last call (2.0 = two), 0 at the first
  Bytes read;                         // from disk since the process began, page cache left out
  std::optional<double> temperature;  // degrees Celsius, the hottest sensor of the processor
};

class Meters {
 public:
  explicit Meters(Roots roots = {});
  // `now` is any steady clock in seconds; the second form uses the system's.
  Reading read(Seconds now);
  Reading read();

 private:
  Roots roots_;
  double ticks_a_second_;
  std::optional<Seconds> last_time_, last_cpu_;
};

}  // namespace danqing
