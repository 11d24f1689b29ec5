// ComfyUI's weights: brackets are found from the outside in, each pair read as text of its own.
#include <algorithm>

#include "text/number.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kMaxDepth = 256;
constexpr double kBracketWeight = 1.1;
// Escaped brackets stand as these bytes, which UTF-8 never has, while brackets are matched.
constexpr char kOpenEscaped = '\xFE', kCloseEscaped = '\xFF';

std::string hide_escapes(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == ')');
    if (escape) ++at;
    out += !escape ? text[at] : text[at] == '(' ? kOpenEscaped : kCloseEscaped;
  }
  return out;
}

std::string show_escapes(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), kOpenEscaped, '(');
  std::replace(out.begin(), out.end(), kCloseEscaped, ')');
  return out;
}

struct Part {
  std::string_view text;
  double weight;
  size_t depth;
  bool plain;  // no brackets left to read
};

// Cuts at the outermost brackets. An unopened `)` counts below zero, so the next `(` is text: ComfyUI does so.
std::vector<std::string_view> cut_at_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  int64_t depth = 0;
  size_t begin = 0;
  const auto end_part = [&](size_t end) {
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') {
      if (depth++ == 0) end_part(at);
    } else if (text[at] == ')') {
      if (--depth == 0) end_part(at + 1);
    }
  }
  end_part(text.size());
  return parts;
}

// A bracketed part loses its brackets and its number.
Part opened(Part part) {
  part.text = part.text.substr(1, part.text.size() - 2);
  part.weight *= kBracketWeight;
  ++part.depth;
  const size_t colon = part.text.rfind(':');
  if (colon == part.text.npos || colon == 0) return part;
  std::string_view number = part.text.substr(colon + 1);
  while (!number.empty() && number.front() == ' ') number.remove_prefix(1);
  while (!number.empty() && number.back() == ' ') number.remove_suffix(1);
  if (const auto weight = parse_number(number)) {
    part.weight = *weight;
    part.text = part.text.substr(0, colon);
  }
  return part;
}

}  // namespace

std::vector<WeightedText> parse_comfyui(std::string_view text) {
  const std::string hidden = hide_escapes(to_utf8(to_utf32(text)));  // well-formed, so the two bytes are free
  std::vector<WeightedText> pieces;
  std::vector<Part> waiting = {{hidden, 1, 0, false}};  // the next one last
  while (!waiting.empty()) {
    const Part whole = waiting.back();
    waiting.pop_back();
    if (whole.plain) {
      pieces.push_back({show_escapes(whole.text), whole.weight, false});
      continue;
    }
    const auto parts = cut_at_brackets(whole.text);
    for (size_t i = parts.size(); i-- > 0;) {
      const std::string_view part = parts[i];
      const bool bracketed = part.size() >= 2 && part.front() == '(' && part.back() == ')' && whole.depth < kMaxDepth;
      const Part inner = {part, whole.weight, whole.depth, !bracketed};
      waiting.push_back(bracketed ? opened(inner) : inner);
    }
  }
  return pieces;
}

}  // namespace danqing
