#include "weights/json_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace danqing {

nlohmann::json parse_json_object(const std::string& text, const std::string& what) {
  constexpr int kMaxDepth = 100;
  const auto guard = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxDepth) throw Error(Fault::file, what + ": nested deeper than 100 levels");
    return true;
  };
  try {
    nlohmann::json value = nlohmann::json::parse(text, guard);
    if (!value.is_object()) throw Error(Fault::file, what + ": a JSON object is wanted");
    return value;
  } catch (const nlohmann::json::exception& e) {
    throw Error(Fault::file, what + ": not valid JSON: " + e.what());
  }
}

}  // namespace danqing
