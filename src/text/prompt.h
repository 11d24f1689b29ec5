// Emphasis in prompts: `(a)`, `[a]`, `(a:1.3)`, BREAK and escapes -> pieces of text with weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace danqing {

struct WeightedText {
  std::string text;
  double weight = 1;
  bool is_break = false;  // BREAK: what follows begins a new chunk. `text` is "BREAK", the weight means nothing.
};

// A1111's language (its parse_prompt_attention, 1.10 line): a round bracket multiplies by 1.1, a square one by 1/1.1,
// `(text:number)` by the number; brackets multiply each other; a backslash makes the bracket or backslash behind it
// plain text and vanishes. Unbalanced brackets: an unopened one is text, an unclosed one counts to the end of the text.
// BREAK counts as a whole upper-case word and takes the white space around it. Neighbours of equal weight are joined;
// an empty text is one piece.
// Where A1111 fails (`(a:1.2.3)`), the number is plain text and the bracket a plain one.
// Own limits: at most 512 open brackets of a kind, a deeper one is text.
// Time linear in the length. Numbers are read with a dot whatever the locale.
std::vector<WeightedText> parse_a1111(std::string_view text);

// ComfyUI's language: round brackets only; `(text)` multiplies by 1.1, the number of `(text:number)` is the weight
// itself, whatever stands around it; `\(` and `\)` are plain brackets. No BREAK. Brackets deeper than 256 are text.
std::vector<WeightedText> parse_comfyui(std::string_view text);

// The whole text as one piece of weight 1: brackets are text (diffusers).
std::vector<WeightedText> parse_plain(std::string_view text);

}  // namespace danqing
