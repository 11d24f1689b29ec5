#include "explain/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace danqing {

namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string size_sentence(const Subject& s) {
  const Bytes peak = s.plan.peak + s.base;
  if (!s.fits)
    return "Does not fit: it needs " + to_string(peak) + " and " + to_string(s.limit) + " may be used, " +
           to_string(peak - s.limit) + " too little.";
  if (s.limit.value == 0) return "Takes " + to_string(peak) + " at most; no limit is set.";
  const double share = ratio(static_cast<double>(peak.value), static_cast<double>(s.limit.value));
  return "Fits: " + to_string(peak) + " at most, " + percent(share) + " of the " + to_string(s.limit) +
         " that may be used" + (share > 0.9 ? "; there is little room for a larger size or batch." : ".");
}

std::string remedy_sentence(const Subject& s) {
  if (s.remedies.empty()) return "No single change would do.";
  std::string text = "This would do: ";
  for (size_t i = 0; i < s.remedies.size(); ++i) (text += i ? "; or " : "") += s.remedies[i];
  return text + ".";
}

std::string binding_sentence(const Subject& s, const Summary& m) {
  const Cost& cost = s.plan.cost;
  const auto share = percent(ratio(cost.by_bound[static_cast<size_t>(cost.bound)], cost.seconds.value));
  const double busy = m.computing().value;
  const std::string went = s.trace ? "ran at " : "would run at ";
  switch (cost.bound) {
    case Bound::compute:
      return "Compute-bound: arithmetic binds " + share + " of the predicted time, and the phases " + went +
             percent(ratio(s.plan.work.products.value, busy * m.roof.value)) + " of this machine's " +
             std::string(name(m.arithmetic)) + " peak of " + to_string(m.roof) + ".";
    case Bound::bandwidth: {
      const double bytes = static_cast<double>((s.plan.work.read + s.plan.work.written).value);
      return "Bandwidth-bound: memory binds " + share + " of the predicted time, and the phases " + went +
             percent(ratio(bytes, busy * s.machine.bandwidth.value)) + " of this machine's " +
             to_string(s.machine.bandwidth) + ".";
    }
    case Bound::overhead:
      return "Bound by overhead: the ops are so small that starting them (" + to_string(s.machine.launch) +
             " each) takes " + share + " of the predicted time.";
    case Bound::disk:
      return "Bound by the disk: reading " + to_string(m.phases.front().work.read) + " at " +
             to_string(s.machine.disk) + " takes " + share + " of the predicted time.";
  }
  return {};
}

// The plan's own rules on a machine with one roof doubled.
std::string what_if_sentence(const Subject& s) {
  const double now = seconds_on(s, s.machine).value;
  const auto saved = [&](auto&& change) {
    Machine better = s.machine;
    change(better);
    return percent(1 - ratio(seconds_on(s, better).value, now));
  };
  const std::string arithmetic = saved([](Machine& m) {
    for (FlopsPerSecond* roof : {&m.roofs.f32, &m.roofs.f16, &m.roofs.bf16, &m.roofs.f8, &m.roofs.int8})
      roof->value *= 2;
  });
  const std::string bandwidth = saved([](Machine& m) { m.bandwidth.value *= 2; });
  const std::string disk = saved([](Machine& m) { m.disk.value *= 2; });
  return "Twice the arithmetic would save " + arithmetic + " of the time, twice the memory bandwidth " + bandwidth +
         ", a disk twice as fast " + disk + ".";
}

std::string where_sentence(const Summary& m) {
  const PhaseRow* slowest = &m.phases.front();
  double all = 0;
  for (const PhaseRow& row : m.phases) {
    all += row.seconds().value;
    if (row.seconds() > slowest->seconds()) slowest = &row;
  }
  std::string text =
      "Most of the time goes to " + slowest->name + " (" + percent(ratio(slowest->seconds().value, all)) + ")";
  const std::vector<OpRow> kinds = by_kind(m);
  for (size_t i = 0; i < std::min<size_t>(2, kinds.size()); ++i)
    text += (i ? ", " : "; by kind of op: ") + std::string(plural(kinds[i].kind)) + " " +
            percent(ratio(kinds[i].seconds().value, all));
  return text + ".";
}

std::string time_sentence(const Subject& s) {
  const double predicted = s.plan.cost.seconds.value, measured = s.seconds.value;
  return "It took " + to_string(s.seconds) + "; predicted were " + to_string(s.plan.cost.seconds) + ", " +
         apart(predicted, measured) + ".";
}

std::string memory_sentence(const Subject& s) {
  const Bytes planned = s.plan.peak, got = s.trace->allocated_peak;
  std::string text = got == planned ? "Memory allocated: to the byte what was planned"
                                    : "Memory allocated: " + std::to_string(got.value) + " bytes, planned " +
                                          std::to_string(planned.value);
  if (s.rss_peak.value)
    text += "; the process held " + to_string(s.rss_peak) + " at most, predicted were " + to_string(planned + s.base) +
            ", " + apart(static_cast<double>((planned + s.base).value), static_cast<double>(s.rss_peak.value));
  return text + ".";
}

std::string busy_sentence(const Subject& s, const Summary& m) {
  const double whole = s.seconds.value, kernels = ratio(m.computing().value, whole),
               loading = ratio(m.loading().value, whole);
  return "Kernels ran " + percent(kernels) + " of the time and loading took " + percent(loading) + "; " +
         percent(std::max(0.0, 1 - kernels - loading)) + " went to the host between them.";
}

}  // namespace

std::string percent(double share) {
  char text[32];
  const double value = 100 * share;
  std::snprintf(text, sizeof text, std::fabs(value) < 9.95 && value != 0 ? "%.1f %%" : "%.0f %%", value);
  return text;
}

std::string apart(double predicted, double measured) {
  if (measured <= 0) return "not to be compared";
  const double factor = std::max(predicted, measured) / std::max(1e-300, std::min(predicted, measured));
  if (factor >= 10 && predicted > 0) {
    char text[48];
    std::snprintf(text, sizeof text, "%.0f times %s", factor, predicted > measured ? "more" : "less");
    return text;
  }
  const double off = predicted / measured - 1;
  if (std::fabs(off) < 0.0005) return "the same";
  return percent(std::fabs(off)) + (off > 0 ? " more" : " less");
}

std::vector<std::string> verdict(const Subject& s, const Summary& m) {
  std::vector<std::string> text{size_sentence(s)};
  if (!s.fits) text.push_back(remedy_sentence(s));
  if (s.plan.cost.seconds.value > 0)
    text.insert(text.end(), {binding_sentence(s, m), what_if_sentence(s), where_sentence(m)});
  if (s.trace) text.insert(text.end(), {time_sentence(s), memory_sentence(s), busy_sentence(s, m)});
  return text;
}

}  // namespace danqing
