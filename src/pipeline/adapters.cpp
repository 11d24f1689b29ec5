#include "pipeline/adapters.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "model/diffusers_names.h"
#include "model/inventory.h"

namespace danqing {

namespace {

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

std::string module_of(const std::string& parameter) {
  for (std::string_view ending : {kWeight, kBias})
    if (parameter.ends_with(ending)) return parameter.substr(0, parameter.size() - ending.size());
  return parameter;
}

// What dialects call a module, flattened: kohya by diffusers' or by the original names, PEFT by component.
std::vector<std::string> names_of(const std::string& module, const Model& m) {
  const size_t dot = module.find('.');
  const std::string component = module.substr(0, dot), name = module.substr(dot + 1);
  std::vector<std::string> names;
  const auto add = [&](std::initializer_list<const char*> prefixes, const std::string& rest) {
    for (const char* prefix : prefixes) names.push_back(prefix + flat_name(rest));
  };
  if (component == "unet") {
    add({"lora_unet_", "unet_", "", "diffusion_model_", "base_model_model_"}, diffusers_unet_name(name, m.unet));
    add({"lora_unet_", "diffusion_model_", "model_diffusion_model_", ""}, name);
  } else if (component == "text") {
    add({"lora_te_", "lora_te1_", "text_encoder_"}, name);
  } else if (component == "text_2") {
    add({"lora_te2_", "text_encoder_2_"}, name);
  }
  return names;
}

// "style.safetensors:0.8": the number ends the text; a colon before anything else belongs to the name.
std::pair<std::string, float> split(const std::string& asked) {
  const size_t colon = asked.rfind(':');
  if (colon == std::string::npos || colon + 1 == asked.size()) return {asked, 1.f};
  float value = 0;
  const char *begin = asked.data() + colon + 1, *end = asked.data() + asked.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || rest != end) return {asked, 1.f};
  if (!(value >= -100 && value <= 100))
    throw Error(Fault::request, "--lora: the weight of \"" + asked + "\" is out of range; it goes from -100 to 100");
  return {asked.substr(0, colon), value};
}

void check_size(const Adapter& a, const LoraPart& part, const std::string& module, const Shape& wanted) {
  if (part.rows == 0 || (part.rows == wanted[0] && part.rows * part.columns == wanted.count())) return;
  throw Error(Fault::file, a.file + ": \"" + part.target + "\" is made for " + std::to_string(part.rows) + "x" +
                               std::to_string(part.columns) + " weights, this model's " + module + " is " +
                               to_string(wanted) + "; the LoRA is for another family or size");
}

// Fills in the adapter's parts; gives those that found a parameter.
std::set<size_t> match(Adapter& a, const std::map<std::string, Shape>& parameters, const Model& model) {
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < a.lora->parts().size(); ++i) by_name[a.lora->parts()[i].flat] = i;
  std::set<size_t> used;
  for (const auto& [parameter, shape] : parameters) {
    if (!parameter.ends_with(kWeight)) continue;
    const std::string module = module_of(parameter);
    for (const std::string& name : names_of(module, model)) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      check_size(a, a.lora->parts()[found->second], module, shape);
      a.parts[module] = found->second;
      used.insert(found->second);
      break;
    }
  }
  return used;
}

// "style.safetensors: 40 of 42 parts applied; not used: "x" and others".
std::string usage_of(const Adapter& a, const std::set<size_t>& used) {
  const size_t total = a.lora->parts().size();
  std::string text = a.file + ": " + std::to_string(used.size()) + " of " + std::to_string(total) + " parts applied";
  for (size_t i = 0; i < total; ++i)
    if (!used.contains(i))
      return text + "; not used: \"" + a.lora->parts()[i].target + "\"" +
             (total - used.size() > 1 ? " and others" : "");
  return text;
}

}  // namespace

Adapters::Adapters(const std::vector<std::string>& asked, const Model& model, const Program& program,
                   std::vector<std::string>& notes) {
  std::map<std::string, Shape> parameters;
  for (const Phase& phase : program.phases) add_parameters(phase.graph, parameters);
  for (const std::string& text : asked) {
    const auto [file, strength] = split(text);
    Adapter a{file, strength, std::make_shared<Lora>(Lora::open(file)), {}};
    const std::set<size_t> used = match(a, parameters, model);
    if (used.empty())
      throw Error(Fault::file, file + ": none of its " + std::to_string(a.lora->parts().size()) +
                                   " parts fits this model (" + std::string(name(model.family)) + "); the first is \"" +
                                   a.lora->parts().front().target + "\"");
    notes.push_back(usage_of(a, used));
    for (const std::string& note : a.lora->notes()) notes.push_back(note);
    all_.push_back(std::move(a));
  }
}

bool Adapters::changes(const std::string& parameter) const {
  const std::string module = module_of(parameter);
  return std::ranges::any_of(all_, [&](const Adapter& a) {
    const auto found = a.parts.find(module);
    if (found == a.parts.end() || a.strength == 0) return false;
    return !parameter.ends_with(kBias) || a.lora->parts()[found->second][LoraRole::diff_bias] >= 0;
  });
}

void Adapters::apply(const std::string& parameter, std::span<float> values, int64_t rows) const {
  const std::string module = module_of(parameter);
  for (const Adapter& a : all_) {
    const auto found = a.parts.find(module);
    if (found == a.parts.end()) continue;
    const LoraPart& part = a.lora->parts()[found->second];
    if (parameter.ends_with(kBias))
      a.lora->apply_bias(part, a.strength, values);
    else
      a.lora->apply(part, a.strength, values, rows);
  }
}

Bytes Adapters::largest(const Program& program, const std::string& component) const {
  std::map<std::string, Shape> parameters;
  for (const Phase& phase : program.phases)
    if (phase.component == component) add_parameters(phase.graph, parameters);
  Bytes most;
  for (const auto& [parameter, shape] : parameters)
    if (changes(parameter)) most = std::max(most, Bytes(4 * shape.count()));
  return most;
}

}  // namespace danqing
