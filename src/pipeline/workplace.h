// This host as a place to paint: machine, ways of computing, and how much memory may be taken.
#pragma once

#include "pipeline/job.h"

namespace danqing {

using Note = std::function<void(const std::string&)>;

// Threads and memory as the request says, within what the machine or its container has. Notes: an estimate instead of a
// probe.
Workplace workplace_here(const Request&, const Note&);

}  // namespace danqing
