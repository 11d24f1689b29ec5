#include "model/inventory.h"

#include <algorithm>
#include <set>

namespace danqing {

void add_parameters(const Graph& graph, std::map<std::string, Shape>& found) {
  for (const Node& node : graph.nodes)
    if (const auto* weight = std::get_if<Weight>(&node.op))
      for (const WeightPart& part : weight->parts) {
        Shape shape = node.type.shape;
        if (part.end >= 0) shape[0] = part.end;
        auto [at, fresh] = found.emplace(part.name, shape);
        if (!fresh) at->second[0] = std::max(at->second[0], shape[0]);
      }
}

namespace {

std::map<std::string, Shape> parameters_of(const std::vector<const Program*>& programs) {
  std::map<std::string, Shape> found;
  for (const Program* program : programs)
    for (const Phase& phase : program->phases) add_parameters(phase.graph, found);
  return found;
}

bool is_company(const std::string& key) {
  static constexpr std::string_view kNames[] = {"betas", "logvar", "lvlb_weights", "global_step", "v_pred", "ztsnr"};
  static constexpr std::string_view kStarts[] = {"model_ema.",     "alphas_cumprod", "sqrt_",
                                                 "log_one_minus_", "posterior_",     "first_stage_model.loss.",
                                                 "safety_checker"};
  static constexpr std::string_view kEnds[] = {".position_ids", ".logit_scale"};
  return std::ranges::find(kNames, key) != std::end(kNames) ||
         std::ranges::any_of(kStarts, [&](std::string_view start) { return key.starts_with(start); }) ||
         std::ranges::any_of(kEnds, [&](std::string_view end) { return key.ends_with(end); });
}

}  // namespace

Inventory take_inventory(const Model& model, const std::vector<const Program*>& programs,
                         const std::vector<const Program*>& spare) {
  Inventory inventory;
  std::set<std::string> used;
  for (const auto& [parameter, wanted] : parameters_of(programs)) {
    const std::string component = parameter.substr(0, parameter.find('.'));
    auto at = std::ranges::find(inventory.components, component, &ComponentInventory::name);
    if (at == inventory.components.end()) at = inventory.components.insert(at, {component});
    const auto located = model.layout.locate(parameter);
    if (!located) {
      inventory.missing.push_back(model.layout.expected_key(parameter));
      continue;
    }
    const TensorInfo& t = *located->tensor;
    const Shape shape = located->shape();
    if (!same_parameter_shape(wanted, shape))
      inventory.mismatched.push_back("\"" + t.name + "\" is " + to_string(t.shape) + " " + std::string(name(t.dtype)) +
                                     ", the model wants " + to_string(wanted));
    at->tensors += used.insert(t.name).second;
    at->parameters += shape.count(), at->bytes += located_bytes(*located);
    at->parameters_by_dtype[std::string(name(t.dtype))] += shape.count();
  }
  std::set<std::string> known;
  for (const auto& [parameter, unwanted] : parameters_of(spare))
    if (const auto located = model.layout.locate(parameter)) known.insert(located->tensor->name);
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
