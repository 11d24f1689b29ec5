#include "pipeline/job.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "image/image.h"
#include "model/inventory.h"
#include "pipeline/conditioning.h"
#include "pipeline/fit.h"
#include "run/cpu/device.h"
#include "sample/scheduler_config.h"

namespace danqing {

Habits habits_of(const std::string& like) {
  if (like == "a1111")
    return {Convention::kdiffusion, Emphasis::original, ClipCleaning::ftfy, NoiseKind::philox, false, true, false};
  if (like == "comfyui")
    return {Convention::comfyui, Emphasis::interpolation, ClipCleaning::ftfy, NoiseKind::torch, false, true, false};
  if (like == "diffusers")
    return {Convention::diffusers, Emphasis::none, ClipCleaning::plain, NoiseKind::torch, true, false, true};
  throw Error(Fault::request, "--like: \"" + like + "\" is not known; known are a1111, comfyui, diffusers");
}

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Fault::request, text); }

void check_range(const char* flag, double value, double least, double most) {
  if (std::isfinite(value) && value >= least && value <= most) return;
  refuse(std::string(flag) + ": " + number_text(value) + " is out of range; it goes from " + number_text(least) +
         " to " + number_text(most));
}

// "504 or 512": the legal sizes around one that is not.
void check_side(const char* flag, int value, int factor) {
  check_range(flag, value, factor, 16384);
  if (value % factor == 0) return;
  const int below = value / factor * factor;
  refuse(std::string(flag) + ": " + std::to_string(value) + " is not a multiple of " + std::to_string(factor) +
         "; the nearest are " + (below ? std::to_string(below) + " and " : "") + std::to_string(below + factor));
}

// `picture`: the one to start from, if there is one.
void resolve_size(Request& r, const Model& m, const std::optional<Image>& picture, std::vector<std::string>& notes) {
  if (picture && (!r.width || !r.height)) {
    const Image& init = *picture;
    const int factor = m.vae.factor();
    r.width = std::max(factor, init.width / factor * factor),
    r.height = std::max(factor, init.height / factor * factor);
    if (*r.width != init.width || *r.height != init.height)
      notes.push_back("the initial picture is " + std::to_string(init.width) + "x" + std::to_string(init.height) +
                      "; painting at " + std::to_string(*r.width) + "x" + std::to_string(*r.height));
  }
  r.width = r.width.value_or(m.defaults.width), r.height = r.height.value_or(m.defaults.height);
  check_side("--width", *r.width, m.vae.factor()), check_side("--height", *r.height, m.vae.factor());
}

void check_pictures(const Request& r, const Model& m) {
  if (!r.mask.empty() && r.init.empty()) refuse("--mask needs --init: the picture that it masks");
  if (m.inpainting() && r.mask.empty())
    refuse("this is an inpainting model (" + std::to_string(m.unet.in_channels) +
           " input channels): give --init and --mask");
  if (!r.init.empty() && !m.has_encoder)
    refuse("--init: this checkpoint's VAE has no encoder, so it cannot start from a picture");
  check_range("--strength", r.strength, 0, 1);
  if (!r.mask.empty()) read_mask(r.mask);  // now, not after the text is encoded
}

// Fills what was left to default and checks every value.
void resolve(Request& r, const Model& m, const Habits& habits, std::vector<std::string>& notes) {
  if (r.prompt.empty()) r.prompt = {""};
  // Left empty, so that the request repeats, where none and an empty one differ.
  if (r.negative.empty() && !(m.zeros_without_negative && habits.zero_negative)) r.negative = {""};
  resolve_size(r, m, r.init.empty() ? std::nullopt : std::optional(read_image(r.init)), notes);
  check_pictures(r, m);
  r.steps = r.steps.value_or(m.defaults.steps);
  check_range("--steps", *r.steps, 1, kMaxSteps);
  r.cfg = r.cfg.value_or(m.defaults.guidance);
  check_range("--cfg", *r.cfg, -100, 1000);
  check_range("--batch", r.batch, 1, 1024), check_range("--count", r.count, 1, 100000);
  r.clip_skip = r.clip_skip.value_or(m.text.front().skip);
  for (const TextEncoder& e : m.text) check_range("--clip-skip", *r.clip_skip, 1, e.clip.layers);
  if (!m.unet.label && !(r.original_size + r.target_size + r.crop).empty())
    refuse("--original-size, --target-size, --crop: this model is not conditioned on sizes; Stable Diffusion XL is");
  size_numbers(r);
  check_range("--threads", r.threads, 0, 1024);
  if (r.prompt.size() > 1 && r.batch == 1) r.batch = static_cast<int>(r.prompt.size());
  if (r.batch % static_cast<int>(r.prompt.size()))
    refuse("--batch: " + std::to_string(r.batch) + " pictures cannot be shared out among " +
           std::to_string(r.prompt.size()) + " prompts");
  if (r.negative.size() > 1 && r.negative.size() != r.prompt.size())
    refuse("--negative: " + std::to_string(r.negative.size()) + " given for " + std::to_string(r.prompt.size()) +
           " prompts");
  if (!r.seed) r.seed = std::random_device{}();
  if (!r.rng) r.rng = habits.noise == NoiseKind::torch ? "cpu" : "philox";
  if (*r.rng != "cpu" && *r.rng != "philox") refuse("--rng: \"" + *r.rng + "\" is not known; known are cpu, philox");
}

// f16 is how weights are held: arithmetic is f32 then, so no VAE (SDXL's passes 65504) turns black; bf16 has f32's
// range.
Precision precision_named(const std::string& name, const cpu::Ways& ways) {
  if (name == "auto") return ways.bf16_products ? Precision{DType::bf16, DType::bf16} : Precision{};
  if (name == "f32") return {};
  if (name == "bf16") return {DType::bf16, ways.bf16_products ? DType::bf16 : DType::f32};
  if (name == "f16") return {DType::f16, DType::f32};
  refuse("--precision: \"" + name + "\" is not known; known are auto, f32, bf16, f16");
}

SamplerConfig sampler_config(Request& r, const Model& m, const Habits& habits) {
  SamplerConfig c;
  const bool own = habits.convention == Convention::diffusers && !r.sampler && !m.scheduler.empty() &&
                   m.scheduler.find("_class_name") != std::string::npos;
  if (own) c = scheduler_config(nlohmann::json::parse(m.scheduler), m.title + ": scheduler");
  const SamplerChoice named = r.sampler ? sampler_named(*r.sampler) : sampler_named(m.defaults.sampler);
  if (!own) c.sampler = named.sampler;
  if (r.schedule)
    c.schedule = schedule_named(*r.schedule);
  else if (!own && named.schedule)
    c.schedule = *named.schedule;
  else if (!own && !r.sampler && !m.defaults.schedule.empty())
    c.schedule = schedule_named(m.defaults.schedule);
  c.convention = habits.convention;
  const bool multistep =
      c.sampler->grid == Grid::ends || c.sampler->grid == Grid::ends_from_one || c.sampler->grid == Grid::ends_at_min;
  if (!own)
    c.spacing = multistep ? Spacing::linspace : Spacing::leading;  // what the classes default to beside SD 1.5's config
  Parametrisation kind = m.prediction;
  if (r.prediction == "epsilon")
    kind = Parametrisation::epsilon;
  else if (r.prediction == "v")
    kind = Parametrisation::v;
  else if (r.prediction != "auto")
    refuse("--prediction: \"" + r.prediction + "\" is not known; known are auto, epsilon, v");
  c.training.prediction = kind == Parametrisation::v ? Prediction::v : Prediction::epsilon;
  c.training.zero_terminal_snr = c.training.zero_terminal_snr || m.zero_terminal_snr;
  c.steps = *r.steps;
  if (!r.init.empty() && !(r.strength == 1 && !r.mask.empty() && habits.convention == Convention::diffusers))
    c.strength = r.strength;
  r.sampler = std::string(c.sampler->name), r.schedule = std::string(info(c.schedule).name);
  return c;
}

PromptChunks chunk(const std::string& text, const ClipTokenizer& tokenizer, const Habits& habits, int32_t padding) {
  switch (habits.convention) {
    case Convention::diffusers:
      return chunk_truncated(tokenizer, text, habits.cleaning, padding);
    case Convention::comfyui:
      return chunk_comfyui(tokenizer, parse_comfyui(text), habits.cleaning, padding);
    case Convention::kdiffusion:
      break;
  }
  return chunk_a1111(tokenizer, parse_a1111(text), habits.cleaning, padding);
}

// All prompts as an encoder wants them, padded to one number of chunks. Each image's prompt meets the negative of its
// place.
std::vector<PromptChunks> chunk_prompts(const Job& job, const ClipTokenizer& tokenizer, int32_t padding) {
  const Request& r = job.request;
  std::vector<PromptChunks> all;
  const auto add = [&](const std::string& text) { all.push_back(chunk(text, tokenizer, job.habits, padding)); };
  if (job.guided)
    for (size_t i = 0; i < r.prompt.size(); ++i)
      add(r.negative.empty() ? "" : r.negative[r.negative.size() == 1 ? 0 : i]);
  std::ranges::for_each(r.prompt, add);
  for (PromptChunks& a : all)
    for (PromptChunks& b : all) pad_to_same_length(a, b, padding);
  return all;
}

void chunk_prompts(Job& job, const Places& places) {
  const ClipTokenizer tokenizer(places.data + "/tokenizer");
  job.prompts = static_cast<int64_t>(job.request.prompt.size());
  for (const TextEncoder& e : job.model->text) job.chunks.push_back(chunk_prompts(job, tokenizer, e.padding));
  for (const PromptChunks& c : job.chunks.front())
    if (c.cut)
      job.notes.push_back("a prompt has " + std::to_string(c.tokens) + " tokens; the last " + std::to_string(c.cut) +
                          " were cut, as " + job.request.like + " does");
}

bool weighs(const Job& job) {
  return std::ranges::any_of(job.chunks.front(), [](const PromptChunks& p) {
    return std::ranges::any_of(
        p.chunks, [](const Chunk& c) { return std::ranges::any_of(c.weights, [](float w) { return w != 1; }); });
  });
}

Canvas canvas_of(const Job& job) {
  const Request& r = job.request;
  Canvas c;
  c.width = *r.width, c.height = *r.height, c.images = r.batch, c.repeats = r.count;
  c.prompts = job.prompts, c.guided = job.guided;
  c.chunks = static_cast<int64_t>(job.chunks.front().front().chunks.size());
  c.text_rows = c.all_prompts() * c.chunks;
  if (job.habits.emphasis == Emphasis::interpolation && weighs(job))
    ++c.text_rows;  // the empty prompt, to weigh against
  c.evaluations = job.sampler->evaluations();
  c.clip_skip = *r.clip_skip;
  c.skip_negative = !job.guided || *r.clip_skip == job.model->text.front().skip || job.habits.skip_negative;
  const bool masked_too = job.model->inpainting();
  if (!r.init.empty()) c.encoded_pictures = masked_too ? 2 : 1;
  return c;
}

}  // namespace

Prepared prepare(Request request, const Workplace& workplace, const Places& places) {
  Job job;
  job.habits = habits_of(request.like);
  job.checkpoint = std::make_shared<Checkpoint>(Checkpoint::open(request.model));
  job.model = std::make_shared<Model>(identify(*job.checkpoint));
  for (const std::string& note : job.checkpoint->notes()) job.notes.push_back(note);
  resolve(request, *job.model, job.habits, job.notes);
  job.precision = precision_named(request.precision, workplace.ways);
  job.threads = workplace.ways.threads;
  job.sampler = std::make_shared<SamplerRun>(sampler_config(request, *job.model, job.habits));
  job.guided = std::fabs(*request.cfg - 1) > 1e-6;
  job.zero_negative = job.guided && request.negative.empty();
  job.request = std::move(request);
  chunk_prompts(job, places);
  job.canvas = canvas_of(job);
  if (!job.request.lora.empty()) {
    const Program program = stable_diffusion(*job.model, job.canvas, job.precision);
    job.adapters = std::make_shared<Adapters>(job.request.lora, *job.model, program, job.notes);
  }
  return fit(std::move(job), workplace);
}

}  // namespace danqing
