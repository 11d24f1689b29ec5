// What a person sees while work goes on, and how it is stopped.
#pragma once

#include <atomic>
#include <chrono>

#include "pipeline/paint.h"

namespace danqing {

// One line that is drawn over on a terminal; elsewhere one line a phase. On standard error.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  void show(const Progress&);
  void clear();

 private:
  bool quiet_, terminal_, drawn_ = false;
  std::string phase_;
  std::chrono::steady_clock::time_point last_{};
};

// From here on the first Ctrl-C (or SIGTERM) sets the flag, the second ends the process at once with exit code 130.
const std::atomic<bool>& stop_on_signals();

}  // namespace danqing
