// The report as JSON. Phases carry the figures of one run and, as total_*, those of all runs; totals are sums of these.
#include <cmath>
#include <nlohmann/json.hpp>

#include "explain/verdict.h"
#include "hardware/machine_json.h"

namespace danqing {

namespace {

using nlohmann::json;

// Whole numbers where they are exact.
json number(Flops f) { return f.value < 9e15 ? json(std::llround(f.value)) : json(f.value); }

json ratio(double predicted, double measured) { return measured > 0 ? json(predicted / measured) : json(nullptr); }

json seconds_by_bound(const Cost& cost) {
  json out = json::object();
  for (size_t i = 0; i < cost.by_bound.size(); ++i) out[std::string(name(static_cast<Bound>(i)))] = cost.by_bound[i];
  return out;
}

json memory_of(const Subject& s, const Summary& m) {
  json phases = json::array();
  for (const PhaseRow& row : m.phases)
    phases.push_back({{"name", row.name},
                      {"times", row.times},
                      {"peak_bytes", row.peak.value},
                      {"weights_bytes", row.weights.value},
                      {"arena_bytes", row.arena.value},
                      {"io_bytes", row.io.value}});
  json& components = phases.front()["components"] = json::array();
  for (const LoadPlan& load : s.plan.loads)
    components.push_back({{"component", load.component},
                          {"weights_bytes", load.weights.value},
                          {"staging_bytes", load.staging.value},
                          {"peak_bytes", (load.peak + s.base).value}});
  return {{"peak_bytes", (s.plan.peak + s.base).value},
          {"peak_during", m.peak_during},
          {"weights_bytes", s.plan.weights.value},
          {"arena_bytes", s.plan.arena.value},
          {"io_bytes", s.plan.io_bytes.value},
          {"base_bytes", s.base.value},
          {"limit_bytes", s.limit.value ? json(s.limit.value) : json(nullptr)},
          {"phases", phases}};
}

json work_of_phase(const PhaseRow& row) {
  const auto times = static_cast<double>(row.times);
  return {{"name", row.name},
          {"times", row.times},
          {"flops", number(row.work.products)},
          {"vector_flops", number(row.work.vector)},
          {"bytes", row.bytes().value},
          {"seconds", row.cost.seconds.value},
          {"bound_by", name(row.cost.bound)},
          {"total_flops", number(row.work.products * times)},
          {"total_vector_flops", number(row.work.vector * times)},
          {"total_bytes", row.bytes().value * row.times},
          {"total_seconds", row.total.seconds.value},
          {"seconds_by_bound", seconds_by_bound(row.total)}};
}

json kinds_of(const Summary& m, bool measured) {
  json kinds = json::array();
  for (const OpRow& row : by_kind(m)) {
    json kind{{"kind", name(row.kind)}, {"seconds", (measured ? row.seconds() : row.predicted).value}};
    if (!measured)
      kind.update({{"flops", number(row.work.products)},
                   {"vector_flops", number(row.work.vector)},
                   {"bytes", row.bytes().value}});
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

json work_of_request(const Subject& s, const Summary& m) {
  json phases = json::array();
  for (const PhaseRow& row : m.phases) phases.push_back(work_of_phase(row));
  json& components = phases.front()["components"] = json::array();
  for (const LoadPlan& load : s.plan.loads)
    components.push_back({{"component", load.component},
                          {"bytes", load.file.value},
                          {"seconds", load.cost.seconds.value},
                          {"bound_by", name(load.cost.bound)}});
  return {{"flops", number(m.work.products)},
          {"vector_flops", number(m.work.vector)},
          {"bytes", (m.work.read + m.work.written).value},
          {"phases", phases},
          {"kinds", kinds_of(m, false)}};
}

json measured_of(const Subject& s, const Summary& m) {
  json phases = json::array();
  for (const PhaseRow& row : m.phases) {
    if (!row.measured) continue;
    const auto times = static_cast<double>(std::max<int64_t>(1, row.measured_times));
    phases.push_back({{"name", row.name},
                      {"times", row.measured_times},
                      {"seconds", row.measured->value / times},
                      {"total_seconds", row.measured->value}});
  }
  if (!phases.empty()) {
    json& components = phases.front()["components"] = json::array();
    for (const LoadTrace& load : s.trace->loads)
      components.push_back({{"component", load.component}, {"seconds", load.seconds.value}});
  }
  return {{"allocated_peak_bytes", s.trace->allocated_peak.value},
          {"rss_peak_bytes", s.rss_peak.value},
          {"seconds", s.seconds.value},
          {"phases", phases},
          {"kinds", kinds_of(m, true)}};
}

// Predicted over measured: 1 is true, above 1 too pessimistic.
json error_of(const Subject& s, const Summary& m) {
  const auto bytes = [](Bytes b) { return static_cast<double>(b.value); };
  json phases = json::array();
  for (const PhaseRow& row : m.phases)
    if (row.measured)
      phases.push_back({{"name", row.name}, {"seconds", ratio(row.total.seconds.value, row.measured->value)}});
  return {{"allocated_peak_bytes", ratio(bytes(s.plan.peak), bytes(s.trace->allocated_peak))},
          {"rss_peak_bytes", ratio(bytes(s.plan.peak + s.base), bytes(s.rss_peak))},
          {"seconds", ratio(s.plan.cost.seconds.value, s.seconds.value)},
          {"phases", phases}};
}

}  // namespace

json report_json(const Subject& s) {
  const Summary m = summarise(s);
  json request = json::parse(s.request_json, nullptr, false);
  json out{{"model", s.title},
           {"request", request.is_object() ? std::move(request) : json::object()},
           {"machine", to_json(s.machine)},
           {"notes", s.notes},
           {"fits", s.fits},
           {"remedies", s.remedies},
           {"seconds", s.plan.cost.seconds.value},
           {"bound_by", name(s.plan.cost.bound)},
           {"seconds_by_bound", seconds_by_bound(s.plan.cost)},
           {"arithmetic", name(m.arithmetic)},
           {"memory", memory_of(s, m)},
           {"work", work_of_request(s, m)},
           {"verdict", verdict(s, m)}};
  if (s.trace) out["measured"] = measured_of(s, m), out["error"] = error_of(s, m);
  // Once through the writer, which replaces what is not UTF-8: a later dump cannot fail.
  return json::parse(out.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace danqing
