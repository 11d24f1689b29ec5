// What text encoders are given and what a denoiser reads of them besides the picture: token ids, places of end tokens,
// states side by side, and for SDXL the pooled text with six numbers about the picture's size. Pure functions of a job.
#pragma once

#include <array>

#include "pipeline/job.h"

namespace danqing {

// Of text encoder number `e`, [canvas.text_rows, 77]: all prompts' chunks, then the empty text if weights need it.
std::vector<int32_t> token_ids(const Job&, size_t e);
// The row, counted through all texts, of the token that closes each prompt's first chunk: [all prompts]. An end token
// typed into the prompt is text: the pooled output is not taken there.
std::vector<int32_t> end_rows(const Job&, size_t e);
// Prompt weights on the states of encoder `e`, [canvas.text_rows * 77, width], in place.
void weigh_states(const Job&, size_t e, std::span<float> states);
// Copies an encoder's states, [rows, width], into columns [first, first + width) of `context`, [rows, all encoders'
// widths].
void put_beside(std::span<const float> states, int64_t width, std::span<float> context, int64_t all, int64_t first);

// SDXL's six: original height, width, crop top, left, target height, width (diffusers' order; Podell et al. 2023, 2.2).
std::array<float, 6> size_numbers(const Request& resolved);
// One row of added conditioning: the pooled text, then each number as a sinusoid, cosines first.
void write_label(std::span<const float> pooled, const std::array<float, 6>& numbers, std::span<float> row);

}  // namespace danqing
