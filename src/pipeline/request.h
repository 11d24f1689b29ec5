// What is asked for. One list of fields: command-line flags, JSON keys, picture metadata and help all come from
// visit().
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace danqing {

struct Request {
  std::vector<std::string> prompt, negative;
  std::string model;
  std::optional<int> width, height;
  std::optional<int> steps;
  std::optional<double> cfg;
  std::optional<std::string> sampler, schedule;
  std::optional<uint64_t> seed;
  std::optional<std::string> rng;
  std::string like = "a1111";
  int batch = 1, count = 1;
  std::optional<int> clip_skip;
  std::string original_size, target_size, crop;
  std::string precision = "auto";
  std::vector<std::string> lora;
  std::string init, mask;
  double strength = 0.75;
  std::string guidance = "auto";
  std::string vae_tile = "auto";
  std::string prediction = "auto";
  int threads = 0;
  std::string memory;

  bool operator==(const Request&) const = default;
};

// How a field shows itself. Fields without `remembered` describe the machine, not the picture, and stay out of
// metadata.
struct Field {
  const char* name;   // JSON key; the flag is --name with dashes
  const char* value;  // what stands behind the flag in the help
  const char* help;
  bool remembered = true;
};

// Visitor: void(Field, member&) for every member type above.
template <class Request, class Visitor>
void visit(Request& r, Visitor&& v) {
  v(Field{"prompt", "PROMPT", "what to paint; several prompts paint one picture each"}, r.prompt);
  v(Field{"model", "FILE",
          "checkpoint (.safetensors) or diffusers folder; default: the small model that comes with danqing"},
    r.model);
  v(Field{"negative", "TEXT", "what to avoid"}, r.negative);
  v(Field{"width", "W", "pixels; or both sides by --size WxH"}, r.width);
  v(Field{"height", "H", "pixels"}, r.height);
  v(Field{"steps", "N", "denoising steps"}, r.steps);
  v(Field{"cfg", "G", "guidance; 1 turns it off and halves the work"}, r.cfg);
  v(Field{"sampler", "S", "see `danqing samplers`"}, r.sampler);
  v(Field{"schedule", "S", "sigma schedule, see `danqing samplers`"}, r.schedule);
  v(Field{"seed", "N", "of the first picture; the next take N+1, ... (default: by chance)"}, r.seed);
  v(Field{"rng", "cpu|philox", "noise of torch's CPU generator, or of CUDA's"}, r.rng);
  v(Field{"like", "PROGRAM", "whose habits: a1111, comfyui or diffusers"}, r.like);
  v(Field{"batch", "N", "pictures at once"}, r.batch);
  v(Field{"count", "N", "batches one after another"}, r.count);
  v(Field{"clip_skip", "N", "1: the text encoder's last layer, 2: the one before (default: the model's)"}, r.clip_skip);
  v(Field{"original_size", "WxH", "SDXL: size that the picture pretends to have had (default: its own)"},
    r.original_size);
  v(Field{"target_size", "WxH", "SDXL: size that it was made for (default: its own)"}, r.target_size);
  v(Field{"crop", "XxY", "SDXL: pixels cut off at the left and at the top (default: none)"}, r.crop);
  v(Field{"lora", "FILE[:WEIGHT]", "LoRA to merge in; may be given several times"}, r.lora);
  v(Field{"init", "IMAGE", "picture to start from"}, r.init);
  v(Field{"strength", "X", "how much of it to repaint, 0 to 1"}, r.strength);
  v(Field{"mask", "IMAGE", "white: repaint, black: keep (with --init)"}, r.mask);
  v(Field{"prediction", "auto|epsilon|v", "what the model predicts, if its file is silent"}, r.prediction);
  v(Field{"precision", "auto|f32|bf16|f16", "how weights are held (f16: products in f32)"}, r.precision);
  v(Field{"guidance", "auto|batched|in_turn", "both halves at once, or one after the other in less memory"},
    r.guidance);
  v(Field{"vae_tile", "auto|N|off", "decode in tiles of N pixels"}, r.vae_tile);
  v(Field{"threads", "N", "0: all cores", false}, r.threads);
  v(Field{"memory", "SIZE", "most that may be used, such as 6GiB (default: what the machine or container has)", false},
    r.memory);
}

// Only fields that differ from a fresh Request, so that defaults may grow better; a resolved request names everything.
nlohmann::json to_json(const Request&);
// Unknown keys and wrong types are Error(request) naming the key; `where` names the source.
Request request_from_json(const nlohmann::json&, const std::string& where);

// "768x512", "0x16": both numbers, 0 to 65536; Error(request) names the flag.
std::pair<int, int> parse_pair(const std::string& text, const char* flag);
// As people write it, with a dot whatever the locale: "7", "7.5", "nan".
std::string number_text(double value);

// "768x512" into both sides.
void parse_size(const std::string& text, Request&);

}  // namespace danqing
