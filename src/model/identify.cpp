#include "model/identify.h"

#include <nlohmann/json.hpp>

#include "model/diffusers_names.h"
#include "model/openclip_names.h"
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
  if (has("cap_embedder") || has("context_refiner"))
    return "it looks like a Z-Image transformer, which danqing does not run yet";
  if (has("double_blocks.") || has("single_transformer_blocks."))
    return "it looks like a Flux transformer, which danqing does not run";
  if (has("conditioner.embedders.0.model."))
    return "it looks like the refiner of Stable Diffusion XL, which danqing does not run";
  if (has("input_blocks.") || has("down_blocks.0.resnets.0.time_emb_proj"))
    return "it looks like a U-Net alone; a text encoder and a VAE are needed too";
  if (has("decoder.conv_in") || has("decoder.mid")) return "it looks like a VAE alone";
  if (has("text_model.")) return "it looks like a text encoder alone";
  return "it has no part that danqing knows; its first key is \"" + c.tensors().front().name + "\"";
}

// What tells the families apart besides the sizes that stand in files.
struct FamilyValues {
  std::vector<TextEncoder> text;
  double vae_scale;
  Defaults defaults;
  bool zeros_without_negative;
};

FamilyValues values_of(Family family) {
  ClipConfig big_g{49408, 1280, 5120, 77, 32, 20, Activation::gelu, 1280};
  switch (family) {
    case Family::sd1:
      return {{{"text", {}, 1, true, false, 49407}}, 0.18215, {}, false};
    case Family::sdxl:
      break;
  }
  return {{{"text", {}, 2, false, false, 49407}, {"text_2", big_g, 2, false, true, 0}},
          0.13025,
          {.width = 1024, .height = 1024},
          true};
}

void take_values(Model& m) {
  m.family = m.unet.label ? Family::sdxl : Family::sd1;
  const FamilyValues values = values_of(m.family);
  m.text = values.text, m.vae.scale = values.vae_scale, m.defaults = values.defaults;
  m.zeros_without_negative = values.zeros_without_negative;
}

// CLIP as transformers names it; some tools saved it without the text_model level.
std::vector<KeyPlace> clip_places(const std::string& prefix, const std::string& name) {
  std::vector<KeyPlace> places{{prefix + name}};
  if (name.starts_with("text_model.")) places.push_back({prefix + name.substr(11)});
  return places;
}

void lay_out_single_file(Layout& layout) {
  layout.set("unet", [](const std::string& n) { return std::vector<KeyPlace>{{"model.diffusion_model." + n}}; });
  layout.set("vae", [](const std::string& n) { return std::vector<KeyPlace>{{"first_stage_model." + n}}; });
  layout.set("text", [](const std::string& n) { return clip_places("cond_stage_model.transformer.", n); });
}

void lay_out_conditioner(Layout& layout) {  // SDXL's text encoders
  layout.set("text", [](const std::string& n) { return clip_places("conditioner.embedders.0.transformer.", n); });
  layout.set("text_2", [](const std::string& n) { return openclip_places("conditioner.embedders.1.model.", n); });
}

void lay_out_folder(Layout& layout, const UnetConfig& unet, const VaeConfig& vae) {
  layout.set("unet",
             [unet](const std::string& n) { return std::vector<KeyPlace>{{"unet/" + diffusers_unet_name(n, unet)}}; });
  layout.set("vae", [vae](const std::string& n) {
    const std::string now = diffusers_vae_name(n, vae);
    return std::vector<KeyPlace>{{"vae/" + now}, {"vae/" + old_diffusers_vae_name(now)}};
  });
  layout.set("text", [](const std::string& n) { return clip_places("text_encoder/", n); });
  layout.set("text_2", [](const std::string& n) { return clip_places("text_encoder_2/", n); });
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
    if (!json.is_object())
      throw Error(Fault::file, c.path().string() + ": the scheduler's configuration is not a JSON object");
    const auto is = [&](const char* key, const nlohmann::json& value) {
      return json.contains(key) && json[key] == value;
    };
    if (is("prediction_type", "v_prediction")) m.prediction = Parametrisation::v;
    if (is("rescale_betas_zero_snr", true)) m.zero_terminal_snr = true;
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
    if (json.contains(key) && json[key].is_number() && json[key].get<double>() >= least &&
        json[key].get<double>() <= most)
      into = json[key].get<std::decay_t<decltype(into)>>();
  };
  number("width", m.defaults.width, 8, 16384), number("height", m.defaults.height, 8, 16384);
  number("steps", m.defaults.steps, 1, 1000), number("cfg", m.defaults.guidance, 0, 100);
  if (json.contains("sampler") && json["sampler"].is_string())
    m.defaults.sampler = json["sampler"], m.defaults.schedule = "";
  if (json.contains("schedule") && json["schedule"].is_string()) m.defaults.schedule = json["schedule"];
}

// "text_2" is configured by "text_encoder_2".
std::string folder_of(const TextEncoder& e) { return "text_encoder" + e.component.substr(4); }

void require_config(const Checkpoint& c, const std::string& component) {
  if (!c.config(component))
    throw Error(Fault::file, c.path().string() + ": the folder has no " + component + "/config.json");
}

void identify_folder(const Checkpoint& c, Model& m) {
  for (const char* component : {"unet", "vae"}) require_config(c, component);
  // Structure comes from the config files; sizes that they leave out, from their families' defaults.
  m.unet.levels = {{320, 1, 8}, {640, 1, 8}, {1280, 1, 8}, {1280, 0, 8}};
  m.unet.middle = {1280, 1, 8};
  configure(c, "unet", m.unet);
  take_values(m);
  configure(c, "vae", m.vae);
  for (TextEncoder& e : m.text) {
    require_config(c, folder_of(e));
    configure(c, folder_of(e), e.clip);
  }
  if (const std::string* text = c.config("")) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (const char* key = "force_zeros_for_empty_prompt";
        json.is_object() && json.contains(key) && json[key].is_boolean())
      m.zeros_without_negative = json[key].get<bool>();
  }
  lay_out_folder(m.layout, m.unet, m.vae);
}

void identify_single_file(const Checkpoint& c, Model& m) {
  lay_out_single_file(m.layout);
  if (!m.layout.shape_of("unet.input_blocks.0.0.weight"))
    throw Error(Fault::file, c.path().string() + ": not a Stable Diffusion checkpoint; " + seems_to_be(c));
  m.unet = unet_from_shapes(m.layout);
  configure(c, "unet", m.unet);
  if (m.unet.label) lay_out_conditioner(m.layout);
  const auto need_part = [&](const std::string& part, const std::string& parameter) {
    if (!m.layout.shape_of(parameter))
      throw Error(Fault::file, c.path().string() + ": no " + part + " in this file (\"" +
                                   m.layout.expected_key(parameter) + "\" is missing)");
  };
  need_part("VAE", "vae.decoder.conv_in.weight");
  m.vae = vae_from_shapes(m.layout);
  take_values(m);
  configure(c, "vae", m.vae);
  for (TextEncoder& e : m.text) {
    need_part(m.text.size() > 1 ? "text encoder \"" + e.component + "\"" : "text encoder",
              e.component + ".text_model.embeddings.token_embedding.weight");
    const ClipConfig family = e.clip;
    e.clip = clip_from_shapes(m.layout, e.component);
    e.clip.activation = family.activation;
    if (!e.clip.projection) e.clip.projection = family.projection;  // its absence is reported with all that is missing
    configure(c, folder_of(e), e.clip);
  }
}

// That the parts belong together.
void check_parts(const Checkpoint& c, const Model& m) {
  const std::string where = c.path().string();
  validate(m.unet, where), validate(m.vae, where);
  for (const TextEncoder& e : m.text) validate(e.clip, where);
  const auto fail = [&](const std::string& text) { throw Error(Fault::file, c.path().string() + ": " + text); };
  int64_t width = 0;
  for (const TextEncoder& e : m.text) {
    width += e.clip.width;
    if (e.clip.positions != m.text.front().clip.positions)
      fail("the text encoders take " + std::to_string(m.text.front().clip.positions) + " and " +
           std::to_string(e.clip.positions) + " tokens");
  }
  if (m.unet.context != width)
    fail((m.text.size() > 1 ? "the text encoders give " : "the text encoder gives ") + std::to_string(width) +
         " values a token, the U-Net wants " + std::to_string(m.unet.context));
  if (const int64_t sizes = m.unet.label - m.pooled_width(); m.unet.label && (sizes <= 0 || sizes % 12))
    fail("the U-Net's added conditioning has " + std::to_string(m.unet.label) + " values; beside the pooled text's " +
         std::to_string(m.pooled_width()) + " there must be six numbers' sinusoids");
  if (m.unet.out_channels != m.vae.latent_channels)
    fail("the U-Net makes latents of " + std::to_string(m.unet.out_channels) + " channels, the VAE wants " +
         std::to_string(m.vae.latent_channels));
  if (m.unet.in_channels != m.vae.latent_channels && !m.inpainting())
    fail("the U-Net takes " + std::to_string(m.unet.in_channels) + " channels; danqing knows " +
         std::to_string(m.vae.latent_channels) + " (painting) and " + std::to_string(2 * m.vae.latent_channels + 1) +
         " (inpainting)");
}

}  // namespace

int64_t Model::pooled_width() const {
  int64_t width = 0;
  for (const TextEncoder& e : text) width += e.pooled ? e.clip.projection : 0;
  return width;
}

Model identify(const Checkpoint& c) {
  Model m(c);
  c.components().empty() ? identify_single_file(c, m) : identify_folder(c, m);
  check_parts(c, m);
  m.has_encoder = m.layout.shape_of("vae.encoder.conv_in.weight").has_value();
  read_scheduler(c, m);
  read_defaults(c, m);
  return m;
}

}  // namespace danqing
