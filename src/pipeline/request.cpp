#include "pipeline/request.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace danqing {

namespace {

using nlohmann::json;

[[noreturn]] void wrong(const std::string& where, const char* key, const json& value, const char* wanted) {
  const std::string is = value.is_structured() ? std::string("an ") + value.type_name() : value.dump().substr(0, 60);
  throw Error(Fault::request, where + ": \"" + key + "\" is " + is + ", it must be " + wanted);
}

void read(const json& v, int& into, const std::string& where, const char* key) {
  if (!v.is_number_integer() || v.get<int64_t>() < -1'000'000'000 || v.get<int64_t>() > 1'000'000'000)
    wrong(where, key, v, "a whole number");
  into = v.get<int>();
}
void read(const json& v, uint64_t& into, const std::string& where, const char* key) {
  if (!v.is_number_unsigned()) wrong(where, key, v, "a whole number, 0 or more");
  into = v.get<uint64_t>();
}
void read(const json& v, double& into, const std::string& where, const char* key) {
  if (!v.is_number()) wrong(where, key, v, "a number");
  into = v.get<double>();
}
void read(const json& v, std::string& into, const std::string& where, const char* key) {
  if (!v.is_string()) wrong(where, key, v, "a text");
  into = v.get<std::string>();
}
void read(const json& v, std::vector<std::string>& into, const std::string& where, const char* key) {
  into.clear();
  for (const json& item : v.is_array() ? v : json::array({v})) read(item, into.emplace_back(), where, key);
}
template <class T>
void read(const json& v, std::optional<T>& into, const std::string& where, const char* key) {
  if (v.is_null()) return into.reset();
  read(v, into.emplace(), where, key);
}

template <class T>
json written(const T& v) {
  return v;
}
template <class T>
json written(const std::optional<T>& v) {
  return v ? json(*v) : json();
}

}  // namespace

json to_json(const Request& request) {
  json all = json::object(), usual = json::object();
  const auto write_into = [](json& out) {
    return [&out](const Field& field, const auto& member) {
      if (field.remembered) out[field.name] = written(member);
    };
  };
  const Request fresh;
  visit(request, write_into(all)), visit(fresh, write_into(usual));
  json out = json::object();
  for (const auto& [key, value] : all.items())
    if (value != usual[key]) out[key] = value;
  return out;
}

Request request_from_json(const json& j, const std::string& where) {
  if (!j.is_object()) throw Error(Fault::request, where + ": a request is a JSON object");
  Request request;
  std::set<std::string> known;
  visit(request, [&](const Field& field, auto& member) {
    known.insert(field.name);
    if (const auto at = j.find(field.name); at != j.end()) read(*at, member, where, field.name);
  });
  for (const auto& [key, value] : j.items())
    if (!known.contains(key)) throw Error(Fault::request, where + ": \"" + key + "\" is no field of a request");
  return request;
}

std::pair<int, int> parse_pair(const std::string& text, const char* flag) {
  int first = -1, second = -1;
  const char* end = text.data() + text.size();
  const auto [x, error] = std::from_chars(text.data(), end, first);
  if (error == std::errc() && x != end && (*x == 'x' || *x == 'X'))
    if (const auto [rest, wrong] = std::from_chars(x + 1, end, second); wrong != std::errc() || rest != end)
      second = -1;
  if (first < 0 || second < 0 || first > 65536 || second > 65536)
    throw Error(Fault::request,
                std::string(flag) + ": \"" + text + "\" is not two numbers from 0 to 65536; write for example 512x768");
  return {first, second};
}

void parse_size(const std::string& text, Request& r) {
  const size_t x = text.find_first_of("xX");
  const auto number = [&](size_t from, size_t to) -> std::optional<int> {
    int value = 0;
    const char *begin = text.data() + from, *end = text.data() + to;
    const auto [rest, error] = std::from_chars(begin, end, value);
    return error == std::errc() && rest == end && value > 0 ? std::optional(value) : std::nullopt;
  };
  if (x != std::string::npos) r.width = number(0, x), r.height = number(x + 1, text.size());
  if (x == std::string::npos || !r.width || !r.height)
    throw Error(Fault::request, "--size: \"" + text + "\" is not a size; write for example 512x768 (width x height)");
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  std::string text = nlohmann::json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace danqing
