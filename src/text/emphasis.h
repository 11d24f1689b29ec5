// Prompt weights applied to the encoder's output. Pure arithmetic; `embedding` is row-major [tokens, width] f32,
// changed in place, `weights` one value a token (the chunks joined along the token axis).
#pragma once

#include <cstdint>
#include <span>

namespace danqing {

enum class Emphasis {
  original,       // A1111 "Original": row x weight, then each chunk scaled so that its mean is what it was
  no_norm,        // A1111 "No norm": row x weight
  none,           // A1111 "None", "Ignore": unchanged
  interpolation,  // ComfyUI: empty + weight x (row - empty)
};

// `tokens_per_chunk`: 77 for CLIP. `empty`: the encoder's output for the empty text, [tokens_per_chunk, width], read
// only by `interpolation`. Bug if the sizes do not fit. Where the new mean of a chunk is zero, or the scale would not
// be a finite number, `original` leaves out the scaling: A1111 divides by zero there.
void apply_emphasis(Emphasis emphasis, std::span<float> embedding, std::span<const float> weights, int64_t width,
                    int64_t tokens_per_chunk, std::span<const float> empty = {});

}  // namespace danqing
