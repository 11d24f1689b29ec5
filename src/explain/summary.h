// What text, JSON and HTML show, worked out once: phases, kinds of op and single ops, price and measurement side by
// side.
#pragma once

#include <optional>

#include "explain/report.h"

namespace danqing {

// One row a phase; the first, "load", sums all components' loading. Bytes of memory include the process's base.
struct PhaseRow {
  std::string name;
  int64_t times = 1;
  Bytes peak, weights, arena, io;  // peak = weights + arena + io + base; loading: its staging is the arena
  Work work;                       // of one run; loading reads its files
  Cost cost;                       // of one run
  Cost total;                      // of all runs
  int64_t measured_times = 0;
  std::optional<Seconds> measured;  // of all runs
  // Of all runs, measured where there is a trace.
  Seconds seconds() const { return measured ? *measured : total.seconds; }
  Bytes bytes() const { return work.read + work.written; }
};

// Ops of one kind in one phase, or a single op: everything of all runs.
struct OpRow {
  std::string phase;
  OpKind kind = OpKind::memory;
  const Node* node = nullptr;  // null: a sum over ops
  int64_t count = 0;           // ops of one run that do any work
  Work work;
  Seconds predicted;
  std::optional<Seconds> measured;
  Seconds seconds() const { return measured ? *measured : predicted; }
  // Products where there are any, else other arithmetic.
  Flops flops() const { return work.products.value > 0 ? work.products : work.vector; }
  Bytes bytes() const { return work.read + work.written; }
};

struct Summary {
  std::vector<PhaseRow> phases;
  std::vector<OpRow> kinds;                  // by phase, then kind; only kinds that occur
  std::vector<OpRow> ops;                    // slowest first
  std::string peak_during;                   // "denoise", "load unet"
  DType arithmetic = DType::f32;             // what most products are computed in
  FlopsPerSecond roof;                       // the machine's for that type
  Work work;                                 // of the whole request, loading included
  std::vector<MemoryMoment> planned_memory;  // the plan as a trace would show it, at predicted times

  Seconds loading() const { return phases.front().seconds(); }
  Seconds computing() const;  // all phases but loading
};
Summary summarise(const Subject&);

// Sums over phases, slowest first.
std::vector<OpRow> by_kind(const Summary&);

// Seconds of the whole request on another machine, by the plan's own rules.
Seconds seconds_on(const Subject&, const Machine&);

// For people: "convolutions", "linear layers", "attention", "norms and moves".
std::string_view plural(OpKind);

}  // namespace danqing
