// The Stable Diffusion family as a program: encode, (encode_image), prepare, denoise, decode.
#pragma once

#include "graph/build.h"
#include "graph/program.h"
#include "model/identify.h"

namespace danqing {

// What of a request shapes the computation.
struct Canvas {
  int64_t width = 512, height = 512;  // pixels; multiples of the VAE's factor
  int64_t images = 1;                 // painted at once
  int64_t repeats = 1;                // batches of so many images, one after another
  int64_t prompts = 1;                // distinct prompts among them; divides images
  bool guided = true;                 // two evaluations a step, mixed
  bool in_turn = false;               // guided: one after the other instead of as one batch
  int64_t chunks = 1;                 // of 77 tokens, for every prompt
  int64_t text_rows = 2;              // chunks to encode, of all prompts
  int64_t all_prompts() const { return prompts * (guided ? 2 : 1); }
  int64_t evaluations = 20;      // of the denoiser over the whole request, a guided pair counting once
  int clip_skip = 0;             // 0: the state that the family's denoiser was trained on
  bool skip_negative = true;     // negative prompts skip layers too (diffusers: they keep the usual state)
  int64_t encoded_pictures = 0;  // through the VAE's encoder: initial and masked picture
  int64_t tile = 0;              // side of a decoder's tile in latent values; 0: whole pictures
};

// Names of what goes in and out: encode takes "ids of E" i32 [text_rows, 77] of every text encoder E and gives "states
// of E" f32 [text_rows, 77, width], without skip_negative also "negative states of E"; where E's pooled output is
// wanted, "ends of E" i32 [all prompts, 1], rows counted through all texts, gives "pooled of E" f32 [all prompts,
// projection]. Others: unet.h, vae.h.
Program stable_diffusion(const Model&, const Canvas&, Precision);

// Never run: the text encoders to their last layer, for take_inventory() to know what stands behind the state that is
// read.
Program whole_text_encoders(const Model&);

// Tiles along one side: starts of windows of `tile` that cover `size` and overlap by a quarter of a tile.
std::vector<int64_t> tile_starts(int64_t size, int64_t tile);

}  // namespace danqing
