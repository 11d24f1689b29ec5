#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "model/inventory.h"
#include "model/stable_diffusion.h"

namespace danqing {

namespace {

nlohmann::json describe(const Checkpoint& checkpoint, const Model& m, const Inventory& inventory) {
  nlohmann::json components = nlohmann::json::array();
  for (const ComponentInventory& c : inventory.components)
    components.push_back({{"name", c.name},
                          {"parameters", c.parameters},
                          {"tensors", c.tensors},
                          {"bytes", c.bytes.value},
                          {"parameters_by_dtype", c.parameters_by_dtype}});
  const char* predictions[] = {"epsilon", "v", "flow"};
  return {{"file", checkpoint.path().string()},
          {"family", name(m.family)},
          {"title", m.title},
          {"description", m.description},
          {"inpainting", m.inpainting()},
          {"prediction", predictions[static_cast<size_t>(m.prediction)]},
          {"zero_terminal_snr", m.zero_terminal_snr},
          {"defaults",
           {{"width", m.defaults.width},
            {"height", m.defaults.height},
            {"steps", m.defaults.steps},
            {"cfg", m.defaults.guidance},
            {"sampler", m.defaults.sampler},
            {"schedule", m.defaults.schedule}}},
          {"components", components},
          {"missing", inventory.missing},
          {"mismatched", inventory.mismatched},
          {"unused", inventory.unused},
          {"ignored", inventory.ignored},
          {"notes", checkpoint.notes()}};
}

void print_list(const char* what, const std::vector<std::string>& items) {
  if (items.empty()) return;
  std::printf("%s (%zu): ", what, items.size());
  for (size_t i = 0; i < std::min<size_t>(items.size(), 5); ++i) std::printf("%s%s", i ? ", " : "", items[i].c_str());
  std::printf(items.size() > 5 ? ", ...\n" : "\n");
}

void print(const Model& m, const Inventory& inventory) {
  std::printf("%s: %s%s%s\n", m.title.c_str(), std::string(name(m.family)).c_str(),
              m.inpainting() ? ", inpainting" : "", m.prediction == Parametrisation::v ? ", v-prediction" : "");
  if (!m.description.empty()) std::printf("%s\n", m.description.c_str());
  for (const ComponentInventory& c : inventory.components) {
    std::string types;
    for (const auto& [dtype, count] : c.parameters_by_dtype) (types += types.empty() ? "" : ", ") += dtype;
    std::printf("  %-5s %14lld parameters  %10s  %s\n", c.name.c_str(), static_cast<long long>(c.parameters),
                to_string(c.bytes).c_str(), types.c_str());
  }
  std::printf("usual: %dx%d, %d steps, guidance %g, %s %s\n", m.defaults.width, m.defaults.height, m.defaults.steps,
              m.defaults.guidance, m.defaults.sampler.c_str(), m.defaults.schedule.c_str());
  print_list("missing", inventory.missing), print_list("mismatched", inventory.mismatched);
  print_list("unused", inventory.unused), print_list("ignored", inventory.ignored);
}

}  // namespace

int command_inspect(const Arguments& arguments) {
  bool json = false;
  std::string file;
  const Usage usage{"inspect",
                    "danqing inspect FILE [--json]",
                    {{"--json", "", "for scripts", [&](auto&) { json = true; }}},
                    nullptr,
                    [&](const std::string& word) { file = word; }};
  if (!parse(usage, arguments)) return kDone;
  if (file.empty()) throw Error(Fault::request, "which file? danqing inspect FILE");
  const Checkpoint checkpoint = Checkpoint::open(file);
  const Model model = identify(checkpoint);
  Canvas canvas;
  canvas.encoded_pictures = model.has_encoder;
  canvas.width = canvas.height = 8 * model.vae.factor();
  const Program program = stable_diffusion(model, canvas, {});
  const Program spare = whole_text_encoders(model);
  const Inventory inventory = take_inventory(model, {&program}, {&spare});
  if (json)
    std::printf(
        "%s\n",
        describe(checkpoint, model, inventory).dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  else
    print(model, inventory);
  return inventory.missing.empty() && inventory.mismatched.empty() ? kDone : kBadRequest;
}

}  // namespace danqing
