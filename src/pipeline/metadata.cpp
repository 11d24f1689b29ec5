#include "pipeline/metadata.h"

#include <nlohmann/json.hpp>

namespace danqing {

namespace {

// A request for this picture alone: its own prompt and seed, so that it can be painted without its neighbours.
Request request_alone(const Job& job, int64_t index) {
  Request r = job.request;
  const size_t prompts = r.prompt.size();
  const auto image = static_cast<size_t>(index % r.batch);
  const size_t which = image / (static_cast<size_t>(r.batch) / prompts);
  if (r.negative.size() > 1) r.negative = {r.negative[which]};
  r.prompt = {r.prompt[which]};
  r.seed = *r.seed + static_cast<uint64_t>(index);
  r.batch = r.count = 1;
  // What was left open is recorded as it was chosen, so that another machine does the same.
  r.precision = name(job.precision.weights);
  r.guidance = !job.guided ? "auto" : job.choice.in_turn ? "in_turn" : "batched";
  r.vae_tile = job.choice.tile ? std::to_string(job.choice.tile * job.model->vae.factor()) : "off";
  return r;
}

std::string label_of(const Request& r) {
  std::string text(sampler_named(*r.sampler).sampler->label);
  if (const Schedule s = schedule_named(*r.schedule); s != Schedule::automatic)
    (text += ", Schedule type: ") += info(s).label;
  return text;
}

std::string a1111_block(const Request& r, const Job& job) {
  std::string text = r.prompt.front();
  if (!r.negative.empty() && !r.negative.front().empty()) text += "\nNegative prompt: " + r.negative.front();
  text += "\nSteps: " + std::to_string(*r.steps) + ", Sampler: " + label_of(r) + ", CFG scale: " + number_text(*r.cfg) +
          ", Seed: " + std::to_string(*r.seed) + ", Size: " + std::to_string(*r.width) + "x" +
          std::to_string(*r.height) + ", Model: " + job.model->title;
  if (*r.clip_skip != job.model->text.front().skip) text += ", Clip skip: " + std::to_string(*r.clip_skip);
  if (!r.init.empty()) text += ", Denoising strength: " + number_text(r.strength);
  text += ", RNG: " + std::string(*r.rng == "cpu" ? "CPU" : "NV") + ", Version: danqing";
  return text;
}

}  // namespace

Metadata metadata_of(const Job& job, int64_t index) {
  const Request alone = request_alone(job, index);
  const nlohmann::json json = {{"program", "danqing"},
                               {"request", to_json(alone)},
                               {"model", job.model->title},
                               {"weights", name(job.precision.weights)},
                               {"activations", name(job.precision.activations)}};
  return {a1111_block(alone, job), json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

Request request_of_picture(const std::string& path) {
  const Metadata metadata = read_metadata(path);
  const auto json = nlohmann::json::parse(metadata.json, nullptr, false);
  if (!json.is_object() || !json.contains("request"))
    throw Error(Fault::file,
                path + ": carries no request of danqing's" +
                    std::string(metadata.parameters.empty() ? "" : " (only the text block of another program)"));
  return request_from_json(json["request"], path);
}

}  // namespace danqing
