#include "model/inventory.h"

#include <algorithm>
#include <set>

namespace danqing {

namespace {

struct Parameter {
  std::string name;
  Shape shape;  // whole, as the model wants it
};

// Distinct parameters of all graphs; a layer read in two halves counts once, with its whole height.
std::vector<Parameter> parameters_of(const std::vector<const Program*>& programs) {
  std::map<std::string, Shape> found;
  for (const Program* program : programs)
    for (const Phase& phase : program->phases)
      for (const Node& node : phase.graph.nodes)
        if (const auto* weight = std::get_if<Weight>(&node.op))
          for (const WeightPart& part : weight->parts) {
            Shape shape = node.type.shape;
            if (part.end >= 0) shape[0] = part.end;
            auto [at, fresh] = found.emplace(part.name, shape);
            if (!fresh) at->second[0] = std::max(at->second[0], shape[0]);
          }
  std::vector<Parameter> out;
  for (auto& [name, shape] : found) out.push_back({name, shape});
  return out;
}

bool is_company(const std::string& key) {
  static constexpr std::string_view kParts[] = {
      "position_ids",   "model_ema.",   "alphas_cumprod", "betas",  "sqrt_", "log_one_minus", "posterior_",
      "logvar",         "lvlb_weights", "global_step",    "v_pred", "ztsnr", "logit_scale",   "first_stage_model.loss.",
      "safety_checker", "num_updates",  "decay"};
  return std::ranges::any_of(kParts, [&](std::string_view part) { return key.find(part) != std::string::npos; });
}

}  // namespace

Inventory take_inventory(const Model& model, const std::vector<const Program*>& programs,
                         const std::vector<const Program*>& spare) {
  Inventory inventory;
  std::set<std::string> used;
  for (const Parameter& parameter : parameters_of(programs)) {
    const std::string component = parameter.name.substr(0, parameter.name.find('.'));
    auto at = std::ranges::find(inventory.components, component, &ComponentInventory::name);
    if (at == inventory.components.end()) at = inventory.components.insert(at, {component});
    const auto located = model.layout.locate(parameter.name);
    if (!located) {
      inventory.missing.push_back(model.layout.expected_key(parameter.name));
      continue;
    }
    const TensorInfo& t = *located->tensor;
    const Shape shape = located->shape();
    if (!same_parameter_shape(parameter.shape, shape))
      inventory.mismatched.push_back("\"" + t.name + "\" is " + to_string(t.shape) + " " + std::string(name(t.dtype)) +
                                     ", the model wants " + to_string(parameter.shape));
    at->tensors += used.insert(t.name).second;
    at->parameters += shape.count(), at->bytes += located_bytes(*located);
    at->parameters_by_dtype[std::string(name(t.dtype))] += shape.count();
  }
  std::set<std::string> known;
  for (const Parameter& parameter : parameters_of(spare))
    if (const auto located = model.layout.locate(parameter.name)) known.insert(located->tensor->name);
  for (const TensorInfo& t : model.layout.checkpoint().tensors())
    if (!used.contains(t.name))
      (known.contains(t.name) || is_company(t.name) ? inventory.ignored : inventory.unused).push_back(t.name);
  return inventory;
}

void require_complete(const Model& model, const Inventory& inventory) {
  const std::string file = model.layout.checkpoint().path().filename().string();
  if (!inventory.mismatched.empty()) throw Error(Fault::file, file + ": " + inventory.mismatched.front());
  if (inventory.missing.empty()) return;
  std::string more;
  if (inventory.missing.size() > 1) more = " and " + std::to_string(inventory.missing.size() - 1) + " more";
  throw Error(Fault::file, file + ": \"" + inventory.missing.front() + "\"" + more + " missing; the file is not whole");
}

}  // namespace danqing
