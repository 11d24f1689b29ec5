#include "model/stable_diffusion.h"

#include <algorithm>

#include "graph/fuse.h"
#include "model/clip.h"
#include "model/unet.h"
#include "model/vae.h"

namespace danqing {

std::vector<int64_t> tile_starts(int64_t size, int64_t tile) {
  if (tile <= 0 || tile >= size) return {0};
  const int64_t stride = std::max<int64_t>(1, tile - tile / 4);
  const int64_t count = (size - tile + stride - 1) / stride + 1;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) starts.push_back(std::min(i * stride, size - tile));
  return starts;
}

static void encode_text(const TextEncoder& e, const Canvas& canvas, const Build& root) {
  const Build b = root[e.component];
  const std::string of = " of " + e.component;
  const Value ids = b.input("ids" + of, {DType::i32, {canvas.text_rows, e.clip.positions}});
  std::optional<Value> ends;
  if (e.pooled) ends = b.input("ends" + of, {DType::i32, {canvas.all_prompts(), 1}});
  std::vector<ClipOutput> wishes{{canvas.clip_skip ? std::min(canvas.clip_skip, e.clip.layers) : e.skip, e.final_norm}};
  if (!canvas.skip_negative) wishes.push_back({e.skip, e.final_norm});
  const ClipStates found = clip_text(b, ids, e.clip, wishes, ends);
  b.output("states" + of, b.cast(found.states[0], DType::f32));
  if (!canvas.skip_negative) b.output("negative states" + of, b.cast(found.states[1], DType::f32));
  if (e.pooled) b.output("pooled" + of, b.cast(*found.pooled, DType::f32));
}

// One phase for all encoders: they are small beside the denoiser, and what follows needs them all.
static Phase encode_texts(const Model& m, const Canvas& canvas, Precision precision) {
  Phase phase{"encode", "text", 1, {}};
  for (const TextEncoder& e : m.text) encode_text(e, canvas, Build(phase.graph, precision));
  return phase;
}

Program whole_text_encoders(const Model& m) {
  Program program;
  Phase& phase = program.phases.emplace_back(Phase{"encode", "text", 1, {}});
  for (const TextEncoder& e : m.text) {
    const Build b = Build(phase.graph, {})[e.component];
    const Value ids = b.input("ids of " + e.component, {DType::i32, {1, e.clip.positions}});
    b.output("states of " + e.component, clip_text(b, ids, e.clip, {{1, true}}).states[0]);
  }
  return program;
}

Program stable_diffusion(const Model& m, const Canvas& canvas, Precision precision) {
  const int64_t factor = m.vae.factor(), h = canvas.height / factor, w = canvas.width / factor;
  Program program;
  program.phases.push_back(encode_texts(m, canvas, precision));
  if (canvas.encoded_pictures)
    program.phases.push_back({"encode_image", "vae_encoder", canvas.encoded_pictures,
                              vae_encode(m.vae, {1, canvas.height, canvas.width, 3}, precision, "vae")});
  const int64_t together = canvas.guided && !canvas.in_turn ? 2 : 1, halves = canvas.guided && canvas.in_turn ? 2 : 1;
  const UnetBatch batch{h,
                        w,
                        canvas.images * together,
                        canvas.prompts * together,
                        halves,
                        m.text.front().clip.positions * canvas.chunks,
                        std::max<int64_t>(1, canvas.evaluations)};
  UnetGraphs graphs = unet(m.unet, batch, precision, "unet");
  program.phases.push_back({"prepare", "unet", 1, std::move(graphs.once)});
  program.phases.push_back({"denoise", "unet", canvas.evaluations * halves * canvas.repeats, std::move(graphs.each)});
  const int64_t th = canvas.tile ? std::min(canvas.tile, h) : h, tw = canvas.tile ? std::min(canvas.tile, w) : w;
  const auto tiles = static_cast<int64_t>(tile_starts(h, canvas.tile).size() * tile_starts(w, canvas.tile).size());
  program.phases.push_back({"decode", "vae_decoder", canvas.images * canvas.repeats * tiles,
                            vae_decode(m.vae, {1, th, tw, m.vae.latent_channels}, precision, "vae")});
  for (Phase& phase : program.phases) phase.graph = fuse(phase.graph);
  return program;
}

}  // namespace danqing
