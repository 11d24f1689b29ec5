// One pass with a stack of open brackets. A bracket that turns out to be none leaves all those around it without
// meaning: only the outermost text may hold stray signs.
#include "text/prompt_schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "text/number.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr size_t kMaxOpen = 256;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

struct Node;
using Nodes = std::vector<Node>;

struct Node {
  enum class Kind { text, edit, alternate } kind = Kind::text;
  std::string text;          // text
  std::vector<Nodes> parts;  // edit: from, to; alternate: all
  double when = 0;           // edit, as written
  bool when_has_dot = false;
};

void append(Nodes& nodes, std::string_view text) {
  if (nodes.empty() || nodes.back().kind != Node::Kind::text) nodes.push_back({});
  nodes.back().text += text;
}

void append(Nodes& nodes, Nodes&& more) {
  for (Node& node : more) {
    if (node.kind == Node::Kind::text) {
      append(nodes, node.text);
    } else {
      nodes.push_back(std::move(node));
    }
  }
}

struct Bracket {
  char sign;           // ( or [
  char separator = 0;  // : or | once one was seen
  std::vector<Nodes> parts = std::vector<Nodes>(1);
};

// Brackets and separators as plain text around their parts.
void append_flat(Nodes& nodes, Bracket&& bracket) {
  append(nodes, std::string_view(&bracket.sign, 1));
  for (size_t i = 0; i < bracket.parts.size(); ++i) {
    if (i > 0) append(nodes, std::string_view(&bracket.separator, 1));
    append(nodes, std::move(bracket.parts[i]));
  }
}

// The node of a closed square bracket with separators; nothing, and the bracket as it was, if its last part is no
// number where one must be.
std::optional<Node> group(Bracket& bracket) {
  if (bracket.separator == '|') return Node{Node::Kind::alternate, {}, std::move(bracket.parts)};
  const Nodes& last = bracket.parts.back();
  if (last.size() != 1 || last[0].kind != Node::Kind::text) return std::nullopt;
  const std::string_view text = last[0].text;
  const size_t begin = skip_spaces(text, 0), end = trim_spaces(text, begin, text.size());
  const std::string_view number = text.substr(begin, end - begin);
  const auto when = parse_number(number);
  if (!when) return std::nullopt;
  Node node{Node::Kind::edit, {}, {}, *when, number.find('.') != number.npos};
  bracket.parts.pop_back();
  if (bracket.parts.size() == 1) node.parts.emplace_back();
  for (Nodes& part : bracket.parts) node.parts.push_back(std::move(part));
  return node;
}

class Reader {
 public:
  // The tree of `text`; nothing where A1111's grammar does not read it.
  std::optional<Nodes> read(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t plain = std::min(text.find_first_of("\\()[]:|", at), text.size());
      if (plain > at) {
        append(here(), text.substr(at, plain - at));
        at = plain;
      } else if (text[at] == '\\') {
        if (at + 1 == text.size() || text[at + 1] == '\n') return std::nullopt;
        append(here(), text.substr(at, 2));
        at += 2;
      } else if (!take_sign(text[at++])) {
        return std::nullopt;
      }
    }
    if (!give_up()) return std::nullopt;
    return std::move(root_);
  }

 private:
  Nodes& here() { return open_.empty() ? root_ : open_.back().parts.back(); }

  bool take_sign(char sign) {
    if (sign == '(' || sign == '[') {
      if (open_.size() == kMaxOpen) return false;
      open_.push_back({sign});
      return true;
    }
    const bool fits = !open_.empty() && (sign == ')' || sign == ']' ? close(sign) : separate(sign));
    if (fits) return true;
    if (sign == '|' || !give_up()) return false;
    append(root_, std::string_view(&sign, 1));
    return true;
  }

  bool separate(char sign) {
    Bracket& bracket = open_.back();
    if (bracket.separator != 0 && bracket.separator != sign) return false;
    const size_t most = sign == '|' ? SIZE_MAX : bracket.sign == '(' ? 2 : 3;
    if ((sign == '|' && bracket.sign == '(') || bracket.parts.size() == most) return false;
    bracket.separator = sign;
    bracket.parts.emplace_back();
    return true;
  }

  bool close(char sign) {
    Bracket& bracket = open_.back();
    if ((sign == ')') != (bracket.sign == '(')) return false;
    if (sign == ')' || bracket.separator == 0) {
      Bracket closed = std::move(bracket);
      open_.pop_back();
      append_flat(here(), std::move(closed));
      append(here(), std::string_view(&sign, 1));
      return true;
    }
    auto node = group(bracket);
    if (!node) return false;
    open_.pop_back();
    here().push_back(std::move(*node));
    return true;
  }

  // Makes all open brackets plain text. False where that would leave a `|` outside.
  bool give_up() {
    for (Bracket& bracket : open_) {
      if (bracket.separator == '|') return false;
      append_flat(root_, std::move(bracket));
    }
    open_.clear();
    return true;
  }

  Nodes root_;
  std::vector<Bracket> open_;
};

// The last step of `from`; 0 or less: it never shows.
int last_step(const Node& edit, const PromptSteps& steps) {
  double when = edit.when;
  if (steps.old_rule) {
    if (when < 1) when *= steps.steps;
  } else if (edit.when_has_dot) {
    when = (when - (steps.first_pass > 0 ? 1 : 0)) * steps.steps;
  } else {
    when -= steps.first_pass;
  }
  return static_cast<int>(std::clamp<double>(when, -1, steps.steps));
}

// The steps at which the text may change.
struct Changes {
  std::set<int> ends;
  bool every = false;
};

void collect(const Nodes& nodes, const PromptSteps& steps, Changes& changes) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::alternate) changes.every = true;
    if (node.kind == Node::Kind::edit) {
      if (const int last = last_step(node, steps); last >= 1) changes.ends.insert(last);
    }
    for (const Nodes& part : node.parts) collect(part, steps, changes);
  }
}

// Writes the text of each stretch; counts what that takes, nodes visited for no text included.
class Writer {
 public:
  Writer(const PromptSteps& steps, size_t text_bytes) : steps_(steps), text_bytes_(text_bytes) {}

  void write(const Nodes& nodes, int step, std::string& out) {
    for (const Node& node : nodes) {
      count(sizeof(Node) + node.text.size());
      if (node.kind == Node::Kind::text) {
        out += node.text;
      } else if (node.kind == Node::Kind::edit) {
        write(node.parts[step <= last_step(node, steps_) ? 0 : 1], step, out);
      } else {
        write(node.parts[static_cast<size_t>(step - 1) % node.parts.size()], step, out);
      }
    }
  }

  void count(size_t bytes) {
    taken_ += bytes;
    if (taken_ > kMaxTextBytes) {
      throw Error(Fault::request, "prompt: written out for " + std::to_string(steps_.steps) +
                                      " steps it takes more than 64 MiB, its own size is " +
                                      std::to_string(text_bytes_) + " bytes");
    }
  }

 private:
  PromptSteps steps_;
  size_t text_bytes_, taken_ = 0;
};

// Weight behind the last colon of a part of AND.
WeightedPrompt weighted_part(std::string_view part) {
  const size_t end = trim_spaces(part, 0, part.size());
  const std::string_view text = part.substr(0, end);
  const size_t colon = text.rfind(':');
  if (colon != text.npos) {
    const std::string_view number = text.substr(skip_spaces(text, colon + 1));
    const bool plain = number.find_first_not_of("+-.0123456789") == number.npos;
    if (const auto weight = parse_number(number); plain && weight) {
      return {std::string(text.substr(0, trim_spaces(text, 0, colon))), *weight};
    }
  }
  return {std::string(text), 1};
}

}  // namespace

std::vector<ScheduledPrompt> schedule_prompt(std::string_view text, const PromptSteps& steps) {
  if (steps.steps < 1) {
    throw Error(Fault::request, "steps = " + std::to_string(steps.steps) + ": a prompt needs at least 1 step");
  }
  const auto tree = Reader().read(text);
  if (!tree) return {{steps.steps, std::string(text)}};
  Changes changes;
  collect(*tree, steps, changes);
  Writer writer(steps, text.size());
  std::vector<ScheduledPrompt> schedule;
  const auto add = [&](int last) {
    writer.count(sizeof(ScheduledPrompt));
    schedule.push_back({last, {}});
    writer.write(*tree, last, schedule.back().text);
  };
  if (changes.every) {
    for (int step = 1; step <= steps.steps; ++step) add(step);
    return schedule;
  }
  changes.ends.insert(steps.steps);
  for (int step : changes.ends) add(step);
  return schedule;
}

std::vector<WeightedPrompt> split_and(std::string_view text) {
  constexpr std::string_view kAnd = "AND";
  std::vector<WeightedPrompt> parts;
  size_t begin = 0;
  for (size_t at = find_word(text, kAnd, 0); at != text.npos; at = find_word(text, kAnd, begin)) {
    parts.push_back(weighted_part(text.substr(begin, at - begin)));
    begin = at + kAnd.size();
  }
  parts.push_back(weighted_part(text.substr(begin)));
  return parts;
}

}  // namespace danqing
