// JSON from files of unknown origin: broken text, deep nesting and a wrong top level are Errors, never a crash.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace danqing {

// `what` is how errors call the text. At most 100 levels (nlohmann's dump() recurses).
nlohmann::json parse_json_object(const std::string& text, const std::string& what);

}  // namespace danqing
