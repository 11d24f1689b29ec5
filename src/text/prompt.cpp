#include "text/prompt.h"

#include <algorithm>

#include "text/number.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kMaxOpen = 512;  // of each kind of bracket
constexpr double kBracketWeight = 1.1;
constexpr std::string_view kBreak = "BREAK";

// Collects the pieces; brackets still open are the places where they began. Weights lie apart from the texts, and text
// with no bracket between is one piece at once: a bracket passes over all pieces behind it, and hostile texts have
// many.
class Pieces {
 public:
  // Plain text, cut at every BREAK.
  void add_text(std::string_view text) {
    size_t begin = 0;
    for (size_t at = find_word(text, kBreak, 0); at != text.npos; at = find_word(text, kBreak, begin)) {
      add(text.substr(begin, trim_spaces(text, begin, at) - begin));
      breaks_.push_back(texts_.size());
      texts_.emplace_back(kBreak);
      weights_.push_back(1);
      joins_ = false;
      begin = skip_spaces(text, at + kBreak.size());
    }
    add(text.substr(begin));
  }

  void add(std::string_view text) {
    if (joins_) {
      texts_.back() += text;
    } else {
      texts_.emplace_back(text);
      weights_.push_back(1);
      joins_ = true;
    }
  }

  bool open(std::vector<size_t>& brackets) {
    if (brackets.size() == kMaxOpen) return false;
    joins_ = false;
    return brackets.push_back(texts_.size()), true;
  }

  bool close(std::vector<size_t>& brackets, double weight) {
    if (brackets.empty()) return false;
    joins_ = false;
    multiply(brackets.back(), weight);
    return brackets.pop_back(), true;
  }

  std::vector<WeightedText> take() {
    for (size_t begin : round) multiply(begin, kBracketWeight);
    for (size_t begin : square) multiply(begin, 1 / kBracketWeight);
    std::vector<WeightedText> joined;
    size_t next_break = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const bool is_break = next_break < breaks_.size() && breaks_[next_break] == i;
      next_break += is_break;
      if (!joined.empty() && joined.back().weight == weights_[i] && !joined.back().is_break && !is_break) {
        joined.back().text += texts_[i];
      } else {
        joined.push_back({std::move(texts_[i]), weights_[i], is_break});
      }
    }
    if (joined.empty()) joined.push_back({});
    return joined;
  }

  std::vector<size_t> round, square;

 private:
  void multiply(size_t from, double weight) {
    for (size_t i = from; i < weights_.size(); ++i) weights_[i] *= weight;
  }

  std::vector<std::string> texts_;
  std::vector<double> weights_;
  std::vector<size_t> breaks_;  // places of BREAK among the pieces
  bool joins_ = false;          // the next text belongs to the last piece
};

// `:1.3)` at `at`, white space around the number allowed: its length with the bracket, 0 if it is none.
size_t read_weight(std::string_view text, size_t at, double& weight) {
  const size_t begin = skip_spaces(text, at + 1);
  size_t end = begin;
  if (end < text.size() && (text[end] == '+' || text[end] == '-')) ++end;
  while (end < text.size() && (text[end] == '.' || (text[end] >= '0' && text[end] <= '9'))) ++end;
  const size_t bracket = skip_spaces(text, end);
  const auto number = parse_number(text.substr(begin, end - begin));
  if (!number || bracket == text.size() || text[bracket] != ')') return 0;
  weight = *number;
  return bracket + 1 - at;
}

}  // namespace

std::vector<WeightedText> parse_a1111(std::string_view text) {
  constexpr std::string_view kSigns = "\\()[]:";
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    const char sign = text[at];
    size_t length = 1;
    double weight = 0;
    bool used = false;
    if (sign == '\\') {
      length = at + 1 < text.size() && std::string_view("()[]\\").find(text[at + 1]) != std::string_view::npos ? 2 : 1;
      pieces.add(text.substr(at + 1, length - 1));
      used = true;
    } else if (sign == '(') {
      used = pieces.open(pieces.round);
    } else if (sign == '[') {
      used = pieces.open(pieces.square);
    } else if (sign == ')') {
      used = pieces.close(pieces.round, kBracketWeight);
    } else if (sign == ']') {
      used = pieces.close(pieces.square, 1 / kBracketWeight);
    } else if (sign == ':') {
      if (const size_t found = read_weight(text, at, weight)) {
        length = found;
        used = pieces.close(pieces.round, weight);
      }
    } else {
      length = std::min(text.find_first_of(kSigns, at), text.size()) - at;
    }
    if (!used) pieces.add_text(text.substr(at, length));
    at += length;
  }
  return pieces.take();
}

std::vector<WeightedText> parse_plain(std::string_view text) { return {{std::string(text), 1, false}}; }

}  // namespace danqing
