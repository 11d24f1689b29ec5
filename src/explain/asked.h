// What was asked, as pairs to show: the request's fields in a fixed order.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace danqing {

// "prompt" -> "a fox; a dog", "size" -> "512x512". Not an object: nothing.
std::vector<std::pair<std::string, std::string>> asked(const std::string& request_json);

}  // namespace danqing
