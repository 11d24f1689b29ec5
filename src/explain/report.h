// What a request costs on a machine, for people and for scripts; with a trace, what it did cost on the same rows.
// Field by field: docs/report.md. Every number comes from the plan, the machine and the trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graph/program.h"
#include "hardware/machine.h"
#include "plan/plan.h"
#include "run/trace.h"

namespace danqing {

struct Subject {
  const Program& program;
  const Plan& plan;
  const Machine& machine;
  Bytes base;   // of the process before any work
  Bytes limit;  // for all, the base included; 0: none
  bool fits = true;
  std::vector<std::string> remedies;  // if it does not fit: what would do, closest first
  std::string request_json;           // what was asked; anything but a JSON object is left out
  std::string title;                  // the model's
  std::vector<std::string> notes;     // what a person should know
  const Trace* trace = nullptr;       // null: price only
  Bytes rss_peak;                     // with a trace: the most that the process held (VmHWM)
  Seconds seconds;                    // with a trace: the whole request, measured
};

nlohmann::json report_json(const Subject&);  // valid UTF-8 throughout, whatever the texts hold
std::string report_text(const Subject&);     // for a terminal of 80 columns
std::string report_html(const Subject&);     // one page, complete in itself: no script, nothing from elsewhere

}  // namespace danqing
