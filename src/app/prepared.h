// A request made ready on this host, for verbs that paint or price.
#pragma once

#include "explain/report.h"
#include "pipeline/workplace.h"

namespace danqing {

struct Here {
  std::optional<Job> job;  // empty: it does not fit, and why has been said
  Workplace workplace;
};

// Fills in the model that comes with danqing where none is named. `price` wants the job even when it does not fit.
Here prepare_here(Request, const Note&, std::optional<Shortfall>* shortfall = nullptr);

Subject subject_of(const Job&, const Workplace&);

// Which model it is and what it can draw.
void introduce(const Job&);

}  // namespace danqing
