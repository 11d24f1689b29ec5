#include "pipeline/fit.h"

#include <algorithm>
#include <charconv>

#include "model/inventory.h"
#include "run/cpu/device.h"

namespace danqing {

namespace {

std::map<std::string, Bytes> file_bytes_of(const Model& model, const Program& program) {
  std::map<std::string, Bytes> bytes;
  for (const Phase& phase : program.phases)
    for (const Node& node : phase.graph.nodes)
      if (const auto* weight = std::get_if<Weight>(&node.op))
        for (const WeightPart& part : weight->parts)
          if (const auto located = model.layout.locate(part.name)) {
            const int64_t all = std::max<int64_t>(1, located->shape().rank() ? located->shape()[0] : 1);
            const int64_t used = part.end >= 0 ? part.end - part.begin : all;
            bytes[phase.component] += Bytes(located_bytes(*located).value / all * used);
          }
  return bytes;
}

std::map<std::string, Bytes> extra_blocks_of(const Job& job) {
  std::map<std::string, Bytes> extra;
  if (!job.request.lora.empty())
    for (const Phase& phase : job.program.phases)
      extra[phase.component] = job.adapters->largest(job.program, phase.component);
  return extra;
}

// The host's own memory beside the device's: it grows with the work, so it is planned.
void add_host_buffers(Job& job) {
  const Canvas& c = job.canvas;
  const int64_t factor = job.model->vae.factor(), pixels = c.width * c.height, cells = pixels / (factor * factor);
  const int64_t channels = job.model->vae.latent_channels, one = c.images * channels * cells;
  const int64_t rows = c.images * (c.guided && !c.in_turn ? 2 : 1);
  const int64_t tokens = job.model->text.front().clip.positions, prompts = c.all_prompts();
  const auto floats = [](int64_t n) { return Bytes(4 * n); };
  auto& host = job.program.host;
  int64_t widest = 0;
  for (const TextEncoder& e : job.model->text) widest = std::max(widest, e.clip.width);
  host.push_back({"host states", floats(c.text_rows * tokens * widest), "encode", "encode"});
  if (!c.skip_negative) host.push_back({"host negatives", floats(c.text_rows * tokens * widest), "encode", "encode"});
  host.push_back({"host context", floats(prompts * c.chunks * tokens * job.model->unet.context), "encode", "prepare"});
  if (job.model->unet.label) {
    host.push_back({"host pooled", floats(prompts * job.model->pooled_width()), "encode", "prepare"});
    host.push_back({"host label", floats(prompts * job.model->unet.label), "prepare", "prepare"});
  }
  host.push_back({"host latents", floats(one * c.repeats), "prepare", "decode"});
  host.push_back({"host noise", floats(one), "denoise", "denoise"});
  host.push_back({"host input", floats(rows * cells * job.model->unet.in_channels), "denoise", "denoise"});
  host.push_back(
      {"host prediction", floats(rows * cells * channels * (c.guided && c.in_turn ? 2 : 1)), "denoise", "denoise"});
  host.push_back({"host sampler", floats(static_cast<int64_t>(job.sampler->work_floats(static_cast<size_t>(one)))),
                  "denoise", "denoise"});
  if (c.encoded_pictures) {
    host.push_back({"host original", floats(3 * pixels), "encode_image", "encode_image"});
    host.push_back({"host moments", floats(2 * channels * cells * c.encoded_pictures), "encode_image", "denoise"});
    host.push_back({"host image latents", floats(one * 2), "denoise", "denoise"});
  }
  const int64_t tile = c.tile ? c.tile : std::max(c.width, c.height);
  const int64_t tile_pixels = std::min(tile * factor, c.width) * std::min(tile * factor, c.height);
  host.push_back({"host tile", floats(3 * tile_pixels), "decode", "decode"});
  if (c.tile) host.push_back({"host picture", floats(4 * pixels), "decode", "decode"});  // sums and weights
}

void build(Job& job, const Choice& choice, const Workplace& workplace) {
  job.choice = choice;
  if (choice.half_weights) job.precision.weights = DType::f16;
  job.canvas.in_turn = choice.in_turn, job.canvas.tile = choice.tile;
  job.program = stable_diffusion(*job.model, job.canvas, job.precision);
  add_host_buffers(job);
  const auto backend = cpu::make_backend(workplace.ways);
  job.plan =
      plan({job.program, *backend, workplace.machine, file_bytes_of(*job.model, job.program), extra_blocks_of(job)});
}

int64_t tile_of(const std::string& text, int factor, int64_t largest) {
  if (text == "off") return 0;
  int64_t pixels = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), pixels);
  if (error != std::errc() || rest != text.data() + text.size() || pixels < 8 * factor)
    throw Error(Fault::request, "--vae-tile: \"" + text + "\" is not auto, off or a number of pixels from " +
                                    std::to_string(8 * factor));
  const int64_t tile = pixels / factor;
  return tile >= largest ? 0 : tile;
}

// Every way that the request allows, best first: whole and at once, then what saves memory at some cost.
std::vector<Choice> choices(const Job& job) {
  const Request& r = job.request;
  const int factor = job.model->vae.factor();
  const int64_t largest = std::max(job.canvas.width, job.canvas.height) / factor;
  std::vector<bool> turns{false, true};
  if (!job.guided || r.guidance == "batched")
    turns = {false};
  else if (r.guidance == "in_turn")
    turns = {true};
  else if (r.guidance != "auto")
    throw Error(Fault::request, "--guidance: \"" + r.guidance + "\" is not auto, batched or in_turn");
  std::vector<int64_t> tiles{0};
  if (r.vae_tile == "auto") {
    for (int64_t tile : {96, 64, 48, 32, 24, 16})
      if (tile < largest) tiles.push_back(tile);
  } else {
    tiles = {tile_of(r.vae_tile, factor, largest)};
  }
  std::vector<bool> halves{false};
  if (r.precision == "auto" && job.precision.weights == DType::f32) halves.push_back(true);
  std::vector<Choice> all;
  for (int64_t tile : tiles)
    for (bool turn : turns)
      for (bool half : halves) all.push_back({half, turn, tile});
  return all;
}

bool fits(const Job& job, const Workplace& w) { return w.limit.value == 0 || job.plan.peak + w.base <= w.limit; }

// What else would do: each change alone, with the leanest choice; only those that fit.
std::vector<std::string> remedies(const Job& job, const Workplace& w, const Choice& leanest) {
  std::vector<std::string> found;
  const auto attempt_with = [&](const std::string& change, const Choice& choice, auto&& alter) {
    Job other = job;
    alter(other);
    build(other, choice, w);
    if (fits(other, w)) found.push_back(change + " (" + to_string(other.plan.peak + w.base) + ")");
  };
  const auto attempt = [&](const std::string& change, auto&& alter) { attempt_with(change, leanest, alter); };
  // What the request itself rules out.
  const int factor = job.model->vae.factor();
  const int64_t small = 32, largest = std::max(job.canvas.width, job.canvas.height) / factor;
  if (job.guided && !leanest.in_turn)
    attempt_with("--guidance in_turn", {leanest.half_weights, true, leanest.tile}, [](Job&) {});
  if (!leanest.tile && largest > small) {
    attempt_with("--vae-tile auto", {leanest.half_weights, leanest.in_turn, small}, [](Job&) {});
    if (job.guided && !leanest.in_turn)
      attempt_with("--guidance in_turn --vae-tile auto", {leanest.half_weights, true, small}, [](Job&) {});
  }
  if (job.precision.weights == DType::f32) {
    attempt("--precision f16", [](Job& o) { o.precision = {DType::f16, DType::f32}; });
    if (w.ways.bf16_products) attempt("--precision bf16", [](Job& o) { o.precision = {DType::bf16, DType::bf16}; });
  }
  if (job.canvas.images > 1 && job.prompts == 1)
    attempt("--batch 1 --count " + std::to_string(job.canvas.images * job.canvas.repeats),
            [](Job& o) { o.canvas.repeats *= o.canvas.images, o.canvas.images = 1; });
  for (int parts : {7, 6, 5, 4, 3, 2}) {
    const int64_t width = job.canvas.width * parts / 8 / factor * factor,
                  height = job.canvas.height * parts / 8 / factor * factor;
    if (width < factor || height < factor) continue;
    const size_t before = found.size();
    attempt("--size " + std::to_string(width) + "x" + std::to_string(height),
            [&](Job& o) { o.canvas.width = width, o.canvas.height = height; });
    if (found.size() > before) break;
  }
  return found;
}

}  // namespace

Prepared fit(Job job, const Workplace& workplace) {
  Prepared out;
  const std::vector<Choice> all = choices(job);
  const Precision wanted = job.precision;
  std::optional<Job> leanest;
  for (const Choice& choice : all) {
    job.precision = wanted;
    build(job, choice, workplace);
    if (!leanest) require_complete(*job.model, take_inventory(*job.model, {&job.program}));
    if (!leanest || job.plan.peak < leanest->plan.peak) leanest = job;
    if (!fits(job, workplace)) continue;
    if (choice.half_weights) job.notes.push_back("weights are held in f16 to fit into " + to_string(workplace.limit));
    if (choice.in_turn && job.request.guidance == "auto")
      job.notes.push_back("guidance runs in turn to fit into " + to_string(workplace.limit));
    if (choice.tile && job.request.vae_tile == "auto")
      job.notes.push_back("decoding in tiles of " + std::to_string(choice.tile * job.model->vae.factor()) +
                          " pixels to fit into " + to_string(workplace.limit));
    if (workplace.available.value && job.plan.peak + workplace.base > workplace.available)
      job.notes.push_back("only " + to_string(workplace.available) +
                          " of memory are free now; other programs hold the rest");
    out.job = std::move(job);
    return out;
  }
  out.shortfall =
      Shortfall{leanest->plan.peak + workplace.base, workplace.limit, remedies(*leanest, workplace, leanest->choice)};
  out.job = std::move(leanest);
  return out;
}

}  // namespace danqing
