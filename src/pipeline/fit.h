// Finds the fastest way that a job fits into memory; if none does, by how much and what would.
#pragma once

#include "pipeline/job.h"

namespace danqing {

// Chooses how weights are held, guidance (at once or in turn) and tiles of the decoder where the request leaves them
// open, builds the program and its plan. A pure function: the same job and workplace give the same choice.
Prepared fit(Job, const Workplace&);

}  // namespace danqing
