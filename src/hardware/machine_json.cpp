#include "hardware/machine_json.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace danqing {
namespace {

using nlohmann::json;

// The numbers of a Machine, each once: the reader, the writer and the names come from this list.
template <class M, class Visit>
void each_number(M& m, Visit visit) {
  visit("memory", m.memory.value);
  visit("bandwidth", m.bandwidth.value);
  visit("roof_f32", m.roofs.f32.value);
  visit("roof_f16", m.roofs.f16.value);
  visit("roof_bf16", m.roofs.bf16.value);
  visit("roof_f8", m.roofs.f8.value);
  visit("roof_int8", m.roofs.int8.value);
  visit("cores", m.cores);
  visit("threads", m.threads);
  visit("l1", m.caches.l1.value);
  visit("l2", m.caches.l2.value);
  visit("l3", m.caches.l3.value);
  visit("disk", m.disk.value);
  visit("pcie", m.pcie.value);
  visit("launch", m.launch.value);
  visit("efficiency_convolution", m.efficiency.convolution);
  visit("efficiency_linear", m.efficiency.linear);
  visit("efficiency_attention", m.efficiency.attention);
  visit("efficiency_memory_bound", m.efficiency.memory_bound);
}

[[noreturn]] void wrong(const std::string& where, const std::string& field, const std::string& what) {
  throw Error(Fault::file, where + ": machine field \"" + field + "\" " + what);
}

template <class T>
void read_number(const json& value, T& out, const std::string& where, const std::string& field) {
  constexpr double kLargest = 9e15;  // integers below are exact
  if (!value.is_number()) wrong(where, field, "is not a number");
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0 ||
      number > (std::is_same_v<T, int>  ? 1e6
                : std::is_integral_v<T> ? kLargest
                                        : 1e18)) {
    wrong(where, field, "is out of range");
  }
  out = static_cast<T>(number);
}

}  // namespace

json to_json(const Machine& m) {
  json out = {{"name", m.name}, {"kind", m.kind == Machine::Kind::cpu ? "cpu" : "gpu"}, {"native_bf16", m.native_bf16}};
  each_number(m, [&](const char* field, auto value) { out[field] = value; });
  out["sources"] = m.sources;
  return out;
}

Machine machine_from_json(const json& in, const std::string& where) {
  if (!in.is_object()) throw Error(Fault::file, where + ": a machine is a JSON object");
  Machine m;
  std::set<std::string> left;
  for (const auto& item : in.items()) left.insert(item.key());
  auto take = [&](const char* field, auto read) {
    if (left.erase(field)) read(in.at(field));
  };
  for (const char* field : {"name", "memory"}) {
    if (!in.contains(field)) wrong(where, field, "is missing");
  }
  take("name", [&](const json& v) {
    if (!v.is_string()) wrong(where, "name", "is not a text");
    m.name = v.get<std::string>();
  });
  take("kind", [&](const json& v) {
    if (v != "cpu" && v != "gpu") wrong(where, "kind", "is neither \"cpu\" nor \"gpu\"");
    m.kind = v == "cpu" ? Machine::Kind::cpu : Machine::Kind::gpu;
  });
  take("native_bf16", [&](const json& v) {
    if (!v.is_boolean()) wrong(where, "native_bf16", "is neither true nor false");
    m.native_bf16 = v.get<bool>();
  });
  each_number(m, [&](const char* field, auto& value) {
    take(field, [&](const json& v) { read_number(v, value, where, field); });
  });
  take("sources", [&](const json& v) {
    if (!v.is_object()) wrong(where, "sources", "is not an object");
    for (const auto& item : v.items()) {
      if (!item.value().is_string()) wrong(where, "sources." + item.key(), "is not a text");
      m.sources[item.key()] = item.value().get<std::string>();
    }
  });
  if (!left.empty()) wrong(where, *left.begin(), "is not known");
  return m;
}

}  // namespace danqing
