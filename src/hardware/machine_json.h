// A Machine as JSON: rates in bytes and FLOPs a second, memory in bytes, times in seconds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hardware/machine.h"

namespace danqing {

nlohmann::json to_json(const Machine&);

// Throws Error(file) that names the field: unknown, of another type, negative or not finite; `name` and `memory` must
// be there, the others may be left out. `where` is what an error calls the text.
Machine machine_from_json(const nlohmann::json&, const std::string& where);

}  // namespace danqing
