// Verbs that only list: samplers, models, cards.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "hardware/catalogue.h"
#include "pipeline/job.h"
#include "sample/names.h"

namespace danqing {

namespace {

bool parse_listing(const char* verb, const char* line, const Arguments& arguments, bool& json,
                   const std::function<void(const std::string&)>& word = {}) {
  return parse({verb, line, {{"--json", "", "for scripts", [&](auto&) { json = true; }}}, nullptr, word}, arguments);
}

void print_json(const nlohmann::json& j) {
  std::printf("%s\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

// A file that is no model is listed with the reason.
nlohmann::json describe_model(const std::filesystem::path& path) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(path);
    const Model m = identify(checkpoint);
    return {{"file", path.string()}, {"title", m.title}, {"family", name(m.family)}, {"description", m.description}};
  } catch (const Error& e) {
    return {{"file", path.string()}, {"title", ""}, {"family", "no model"}, {"description", e.what()}};
  }
}

}  // namespace

int command_samplers(const Arguments& arguments) {
  bool json = false;
  if (!parse_listing("samplers", "danqing samplers [--json]", arguments, json)) return kDone;
  if (json) {
    nlohmann::json out{{"samplers", nlohmann::json::array()}, {"schedules", nlohmann::json::array()}};
    for (const SamplerInfo& s : samplers())
      out["samplers"].push_back(
          {{"name", s.name}, {"label", s.label}, {"evaluations_a_step", s.evaluations}, {"stochastic", s.stochastic}});
    for (const ScheduleInfo& s : schedules()) out["schedules"].push_back({{"name", s.name}, {"label", s.label}});
    return print_json(out), kDone;
  }
  std::puts("samplers (evaluations a step):");
  for (const SamplerInfo& s : samplers())
    std::printf("  %-20s %-20s %d%s\n", std::string(s.name).c_str(), std::string(s.label).c_str(), s.evaluations,
                s.stochastic ? ", adds noise" : "");
  std::puts("schedules:");
  for (const ScheduleInfo& s : schedules())
    std::printf("  %-20s %s\n", std::string(s.name).c_str(), std::string(s.label).c_str());
  return kDone;
}

int command_models(const Arguments& arguments) {
  namespace fs = std::filesystem;
  bool json = false;
  if (!parse_listing("models", "danqing models [--json]", arguments, json)) return kDone;
  nlohmann::json out = nlohmann::json::array();
  for (const fs::path& folder : {fs::path(find_places().models), fs::path("models")}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.path().extension() != ".safetensors" ||
          (folder == "models" && fs::equivalent(folder, find_places().models, none)))
        continue;
      out.push_back(describe_model(entry.path()));
    }
  }
  if (json) return print_json(out), kDone;
  for (const auto& m : out)
    std::printf("%s\n  %s (%s) %s\n", m["file"].get<std::string>().c_str(), m["title"].get<std::string>().c_str(),
                m["family"].get<std::string>().c_str(), m["description"].get<std::string>().c_str());
  if (out.empty()) std::puts("no model at hand; name one with -m FILE");
  return kDone;
}

int command_cards(const Arguments& arguments) {
  bool json = false;
  std::string wanted;
  if (!parse_listing("cards", "danqing cards [NAME] [--json]", arguments, json,
                     [&](const std::string& word) { wanted += (wanted.empty() ? "" : " ") + word; }))
    return kDone;
  const Catalogue catalogue = Catalogue::load(find_places().data);
  std::vector<const Card*> cards;
  if (!wanted.empty())
    cards.push_back(&catalogue.card(wanted));
  else
    for (const Card& c : catalogue.cards()) cards.push_back(&c);
  nlohmann::json out = nlohmann::json::array();
  for (const Card* c : cards) {
    const Machine m = machine_of(*c);
    out.push_back({{"name", c->name},
                   {"memory_bytes", m.memory.value},
                   {"bandwidth", m.bandwidth.value},
                   {"f16_flops", m.roofs.f16.value},
                   {"bf16_flops", m.roofs.bf16.value},
                   {"f32_flops", m.roofs.f32.value},
                   {"sources", m.sources}});
    if (!json)
      std::printf("%-24s %10s usable  %10s  f16 %s\n", c->name.c_str(), to_string(m.memory).c_str(),
                  to_string(m.bandwidth).c_str(), to_string(m.roofs.f16).c_str());
  }
  if (json) print_json(out);
  return kDone;
}

}  // namespace danqing
