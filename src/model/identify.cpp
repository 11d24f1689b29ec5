#include "model/identify.h"

#include <nlohmann/json.hpp>

#include "model/diffusers_names.h"
#include "model/read_config.h"

namespace danqing {

std::string_view name(Family f) { return f == Family::sd1 ? "Stable Diffusion 1.x" : "Stable Diffusion XL"; }

namespace {

bool any_key(const Checkpoint& c, auto&& test) {
  for (const TensorInfo& t : c.tensors())
    if (test(t.name)) return true;
  return false;
}

// What a file without a known U-Net seems to be, for people who picked the wrong one.
std::string seems_to_be(const Checkpoint& c) {
  const auto has = [&](const char* part) {
    return any_key(c, [&](const std::string& key) { return key.find(part) != std::string::npos; });
  };
  if (c.tensors().empty()) return "it holds no tensors";
  if (has("lora_") || has(".lora")) return "it looks like a LoRA, which changes a model but is none";
  if (has("cap_embedder") || has("context_refiner")) return "it looks like a Z-Image transformer, which danqing does not run yet";
  if (has("double_blocks.") || has("single_transformer_blocks.")) return "it looks like a Flux transformer, which danqing does not run";
  if (has("input_blocks.") || has("down_blocks.0.resnets.0.time_emb_proj"))
    return "it looks like a U-Net alone; a text encoder and a VAE are needed too";
  if (has("decoder.conv_in") || has("decoder.mid")) return "it looks like a VAE alone";
  if (has("text_model.")) return "it looks like a text encoder alone";
  return "it has no part that danqing knows; its first key is \"" + c.tensors().front().name + "\"";
}

void lay_out_single_file(Layout& layout) {
  layout.set("unet", [](const std::string& n) { return std::vector{"model.diffusion_model." + n}; });
  layout.set("vae", [](const std::string& n) { return std::vector{"first_stage_model." + n}; });
  layout.set("text", [](const std::string& n) {
    std::vector keys{"cond_stage_model.transformer." + n};  // some tools saved it without the text_model level
    if (n.starts_with("text_model.")) keys.push_back("cond_stage_model.transformer." + n.substr(11));
    return keys;
  });
}

void lay_out_folder(Layout& layout, const UnetConfig& unet, const VaeConfig& vae) {
  layout.set("unet", [unet](const std::string& n) { return std::vector{"unet/" + diffusers_unet_name(n, unet)}; });
  layout.set("vae", [vae](const std::string& n) {
    const std::string now = diffusers_vae_name(n, vae);
    return std::vector{"vae/" + now, "vae/" + old_diffusers_vae_name(now)};
  });
  layout.set("text", [](const std::string& n) {
    std::vector keys{"text_encoder/" + n};
    if (n.starts_with("text_model.")) keys.push_back("text_encoder/" + n.substr(11));
    return keys;
  });
}

// A component's configuration, if the checkpoint has one.
template <class Config>
void configure(const Checkpoint& c, const std::string& component, Config& config) {
  if (const std::string* text = c.config(component))
    apply_config(*text, c.path().filename().string() + ": config of " + component, config);
}

void read_scheduler(const Checkpoint& c, Model& m) {
  if (const std::string* text = c.config("scheduler")) {
    m.scheduler = *text;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    const std::string kind = json.is_object() ? json.value("prediction_type", "") : "";
    if (kind == "v_prediction") m.prediction = Parametrisation::v;
    if (json.is_object() && json.value("rescale_betas_zero_snr", false)) m.zero_terminal_snr = true;
  }
  if (c.find("v_pred")) m.prediction = Parametrisation::v;  // marker tensors of checkpoints in the wild
  if (c.find("ztsnr")) m.zero_terminal_snr = true;
}

void read_defaults(const Checkpoint& c, Model& m) {
  const auto& meta = c.metadata();
  const auto text = [&](const char* key) {
    const auto at = meta.find(key);
    return at == meta.end() ? std::string() : at->second;
  };
  m.title = text("danqing.name").empty() ? c.path().stem().string() : text("danqing.name");
  m.description = text("danqing.description");
  const auto json = nlohmann::json::parse(text("danqing.defaults"), nullptr, false);
  if (!json.is_object()) return;
  const auto number = [&](const char* key, auto& into, double least, double most) {
    if (json.contains(key) && json[key].is_number() && json[key].get<double>() >= least && json[key].get<double>() <= most)
      into = json[key].get<std::decay_t<decltype(into)>>();
  };
  number("width", m.defaults.width, 8, 16384), number("height", m.defaults.height, 8, 16384);
  number("steps", m.defaults.steps, 1, 1000), number("cfg", m.defaults.guidance, 0, 100);
  if (json.contains("sampler") && json["sampler"].is_string()) m.defaults.sampler = json["sampler"], m.defaults.schedule = "";
  if (json.contains("schedule") && json["schedule"].is_string()) m.defaults.schedule = json["schedule"];
}

void identify_folder(const Checkpoint& c, Model& m) {
  for (const char* component : {"unet", "vae", "text_encoder"})
    if (!c.config(component))
      throw Error(Fault::file, c.path().string() + ": the folder has no " + component + "/config.json");
  // Structure comes from the config files; sizes that they leave out, from their families' defaults.
  m.unet.levels = {{320, 1, 8}, {640, 1, 8}, {1280, 1, 8}, {1280, 0, 8}};
  m.unet.middle = {1280, 1, 8};
  configure(c, "unet", m.unet), configure(c, "vae", m.vae), configure(c, "text_encoder", m.text);
  lay_out_folder(m.layout, m.unet, m.vae);
}

void identify_single_file(const Checkpoint& c, Model& m) {
  lay_out_single_file(m.layout);
  if (!m.layout.shape_of("unet.input_blocks.0.0.weight"))
    throw Error(Fault::file, c.path().string() + ": not a Stable Diffusion checkpoint; " + seems_to_be(c));
  m.unet = unet_from_shapes(m.layout);
  configure(c, "unet", m.unet);
  if (m.unet.label) return;  // refused below: its text encoders stand elsewhere
  for (auto [part, key] : {std::pair{"VAE", "vae.decoder.conv_in.weight"},
                                   std::pair{"text encoder", "text.text_model.embeddings.token_embedding.weight"}})
    if (!m.layout.shape_of(key))
      throw Error(Fault::file, c.path().string() + ": no " + part + " in this file (\"" + m.layout.expected_key(key) + "\" is missing)");
  m.vae = vae_from_shapes(m.layout), m.text = clip_from_shapes(m.layout, "text");
  configure(c, "vae", m.vae), configure(c, "text_encoder", m.text);
}

}  // namespace

Model identify(const Checkpoint& c) {
  Model m(c);
  c.components().empty() ? identify_single_file(c, m) : identify_folder(c, m);
  if (m.unet.label)
    throw Error(Fault::file, c.path().string() + ": a Stable Diffusion XL checkpoint, which danqing does not run yet");
  if (m.unet.context != m.text.width)
    throw Error(Fault::file, c.path().string() + ": the text encoder gives " + std::to_string(m.text.width) +
                                 " values a token, the U-Net wants " + std::to_string(m.unet.context));
  if (m.unet.out_channels != m.vae.latent_channels)
    throw Error(Fault::file, c.path().string() + ": the U-Net makes latents of " + std::to_string(m.unet.out_channels) +
                                 " channels, the VAE wants " + std::to_string(m.vae.latent_channels));
  if (m.unet.in_channels != m.vae.latent_channels && !m.inpainting())
    throw Error(Fault::file, c.path().string() + ": the U-Net takes " + std::to_string(m.unet.in_channels) +
                                 " channels; danqing knows " + std::to_string(m.vae.latent_channels) + " (painting) and " +
                                 std::to_string(2 * m.vae.latent_channels + 1) + " (inpainting)");
  m.has_encoder = m.layout.shape_of("vae.encoder.conv_in.weight").has_value();
  read_scheduler(c, m);
  read_defaults(c, m);
  return m;
}

}  // namespace danqing
