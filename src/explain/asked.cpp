#include "explain/asked.h"

#include <nlohmann/json.hpp>

namespace danqing {

using nlohmann::json;

static std::string plain(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& item : value) (text += text.empty() ? "" : "; ") += plain(item);
  return text;
}

std::vector<std::pair<std::string, std::string>> asked(const std::string& request_json) {
  const json request = json::parse(request_json, nullptr, false);
  std::vector<std::pair<std::string, std::string>> out;
  if (!request.is_object()) return out;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) out.emplace_back(key, value);
  };
  const auto take = [&](const std::string& key) {
    if (request.contains(key)) add(key, plain(request[key]));
  };
  take("prompt"), take("negative");
  const bool sized = request.contains("width") && request.contains("height");
  if (sized) add("size", plain(request["width"]) + "x" + plain(request["height"]));
  for (const char* key : {"steps", "sampler", "schedule", "cfg", "seed"}) take(key);
  for (const auto& [key, value] : request.items())
    if (key != "prompt" && key != "negative" && key != "steps" && key != "sampler" && key != "schedule" &&
        key != "cfg" && key != "seed" && !(sized && (key == "width" || key == "height")))
      add(key, plain(value));
  return out;
}

}  // namespace danqing
