#include "weights/pickle.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/error.h"
#include "weights/container.h"

namespace danqing {
namespace {

using Kind = PickleNode::Kind;
constexpr size_t kMaxNodes = 2'000'000, kMaxStack = 4'000'000;
constexpr uint64_t kMaxText = 64u << 20, kMaxLine = 4096;

// Modules and builtins that a file of weights has no reason to name.
bool is_attack(std::string_view module, std::string_view name) {
  constexpr std::string_view kModules[] = {"os",         "posix",   "nt",        "subprocess", "sys",      "runpy",
                                           "pty",        "socket",  "importlib", "shutil",     "commands", "ctypes",
                                           "webbrowser", "pip",     "code",      "requests",   "urllib",   "bdb",
                                           "pdb",        "asyncio", "marshal"};
  constexpr std::string_view kBuiltins[] = {"eval", "exec",       "execfile", "compile",
                                            "open", "__import__", "input",    "breakpoint"};
  const std::string_view root = module.substr(0, module.find('.'));
  if (root == "builtins" || root == "__builtin__")
    return std::find(std::begin(kBuiltins), std::end(kBuiltins), name) != std::end(kBuiltins);
  return std::find(std::begin(kModules), std::end(kModules), root) != std::end(kModules);
}

class Machine {
 public:
  explicit Machine(ByteReader& in) : in_(in) {}

  Pickle run() {
    while (true) {
      const uint8_t op = in_.take<uint8_t>();
      if (op == '.') break;
      if (!constant(op) && !container(op) && !memo(op) && !object(op))
        in_.fail("unknown pickle instruction " + std::to_string(op));
    }
    pickle_.top = pop();
    return std::move(pickle_);
  }

 private:
  // Numbers, texts and the like: what pushes one value.
  bool constant(uint8_t op) {
    switch (op) {
      case 'N':
        return push({}), true;
      case 0x88:
        return push({.kind = Kind::boolean, .integer = 1}), true;
      case 0x89:
        return push({.kind = Kind::boolean}), true;
      case 'I':
      case 'L':
        return push(number(in_.take_line(kMaxLine))), true;
      case 'J':
        return integer(in_.take<int32_t>()), true;
      case 'K':
        return integer(in_.take<uint8_t>()), true;
      case 'M':
        return integer(in_.take<uint16_t>()), true;
      case 0x8a:
        return long_integer(in_.take<uint8_t>()), true;
      case 0x8b:
        return long_integer(in_.take<uint32_t>()), true;
      case 'F':
        return push({.kind = Kind::real, .real = std::strtod(in_.take_line(kMaxLine).c_str(), nullptr)}), true;
      case 'G':
        return push({.kind = Kind::real, .real = std::bit_cast<double>(__builtin_bswap64(in_.take<uint64_t>()))}), true;
      case 'S':
      case 'V':
        return text(unquoted(in_.take_line(kMaxLine))), true;
      case 'X':
      case 'T':
      case 'B':
        return text(in_.take_text(in_.take<uint32_t>(), kMaxText)), true;
      case 'U':
      case 'C':
      case 0x8c:
        return text(in_.take_text(in_.take<uint8_t>(), kMaxText)), true;
      case 0x8d:
      case 0x8e:
      case 0x96:
        return text(in_.take_text(in_.take<uint64_t>(), kMaxText)), true;
      default:
        return false;
    }
  }

  bool container(uint8_t op) {
    switch (op) {
      case '(':
        return marks_.push_back(stack_.size()), true;
      case ')':
        return push({.kind = Kind::tuple}), true;
      case ']':
        return push({.kind = Kind::list}), true;
      case '}':
        return push({.kind = Kind::dict}), true;
      case 't':
        return push({.kind = Kind::tuple, .items = pop_to_mark()}), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push({.kind = Kind::tuple, .items = pop_last(op - 0x84)}), true;
      case 'l':
        return push({.kind = Kind::list, .items = pop_to_mark()}), true;
      case 'd':
        return push({.kind = Kind::dict, .items = pairs(pop_to_mark())}), true;
      case 'a':
        return extend(Kind::list, pop_last(1)), true;
      case 'e':
        return extend(Kind::list, pop_to_mark()), true;
      case 's':
        return extend(Kind::dict, pop_last(2)), true;
      case 'u':
        return extend(Kind::dict, pairs(pop_to_mark())), true;
      case 0x8f:
        return push({.kind = Kind::opaque}), true;
      case 0x90:
        return pop_to_mark(), peek(), true;
      case 0x91:
        return pop_to_mark(), push({.kind = Kind::opaque}), true;
      case '0':
        return pop_or_mark(), true;
      case '1':
        return pop_to_mark(), true;
      case '2':
        return push_ref(peek()), true;
      default:
        return false;
    }
  }

  bool memo(uint8_t op) {
    switch (op) {
      case 'q':
        return memo_[in_.take<uint8_t>()] = peek(), true;
      case 'r':
        return memo_[in_.take<uint32_t>()] = peek(), true;
      case 'p':
        return memo_[static_cast<uint64_t>(number(in_.take_line(kMaxLine)).integer)] = peek(), true;
      case 0x94: {
        const uint64_t next = memo_.size();
        return memo_[next] = peek(), true;
      }
      case 'h':
        return recall(in_.take<uint8_t>()), true;
      case 'j':
        return recall(in_.take<uint32_t>()), true;
      case 'g':
        return recall(static_cast<uint64_t>(number(in_.take_line(kMaxLine)).integer)), true;
      case 0x80:
        in_.take<uint8_t>();
        return true;  // protocol
      case 0x95:
        in_.take<uint64_t>();
        return true;  // frame
      default:
        return false;
    }
  }

  // Names, calls and what stands for data elsewhere.
  bool object(uint8_t op) {
    switch (op) {
      case 'c': {
        const std::string module = in_.take_line(kMaxLine);
        return global(module, in_.take_line(kMaxLine)), true;
      }
      case 0x93: {
        const auto names = pop_last(2);
        return global(text_of(names[0]), text_of(names[1])), true;
      }
      case 'R':
      case 0x81:
        return call(pop_last(2)), true;
      case 0x92: {
        auto parts = pop_last(3);
        parts.pop_back();
        return call(std::move(parts)), true;
      }
      case 'o':
      case 'i': {
        if (op == 'i') {
          const std::string module = in_.take_line(kMaxLine);
          global(module, in_.take_line(kMaxLine));
        }
        const PickleRef named = op == 'i' ? pop() : 0;
        auto items = pop_to_mark();
        if (op == 'o' && items.empty()) in_.fail("an object without a class");
        const PickleRef callee = op == 'i' ? named : items.front();
        if (op == 'o') items.erase(items.begin());
        push({.kind = Kind::tuple, .items = std::move(items)});
        return call({callee, pop()}), true;
      }
      case 'b':
        return pop(), peek(), true;  // state of an object: of no use without its class
      case 'Q':
        return push({.kind = Kind::persistent, .items = pop_last(1)}), true;
      case 'P':
        text(in_.take_line(kMaxLine));
        return push({.kind = Kind::persistent, .items = pop_last(1)}), true;
      case 0x82:
        in_.take<uint8_t>();
        return push({.kind = Kind::opaque}), true;
      case 0x83:
        in_.take<uint16_t>();
        return push({.kind = Kind::opaque}), true;
      case 0x84:
        in_.take<uint32_t>();
        return push({.kind = Kind::opaque}), true;
      default:
        return false;
    }
  }

  void global(const std::string& module, const std::string& name) {
    if (is_attack(module, name))
      in_.fail("the file asks to run " + in_quotes(module + "." + name) +
               ": weights never need that, do not trust this file");
    push({.kind = Kind::global, .text = module + " " + name});
  }
  void call(std::vector<PickleRef> callee_and_arguments) {
    const std::string& name = pickle_.nodes[callee_and_arguments[0]].text;
    if (name == "collections OrderedDict" || name == "collections defaultdict") return push({.kind = Kind::dict});
    push({.kind = Kind::call, .items = std::move(callee_and_arguments)});
  }
  void extend(Kind kind, std::vector<PickleRef> items) {
    PickleNode& to = pickle_.nodes[peek()];
    if (to.kind == kind) to.items.insert(to.items.end(), items.begin(), items.end());  // else an object's own items
  }
  std::vector<PickleRef> pairs(std::vector<PickleRef> items) const {
    if (items.size() % 2 != 0) in_.fail("a dictionary with a key but no value");
    return items;
  }
  void integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void text(std::string value) { push({.kind = Kind::text, .text = std::move(value)}); }
  void long_integer(uint64_t length) {
    const std::string bytes = in_.take_text(length, kMaxText);
    if (length > 8) return push({.kind = Kind::opaque});
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;  // two's complement
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    integer(static_cast<int64_t>(value));
  }
  static PickleNode number(const std::string& line) {
    if (line == "00" || line == "01") return {.kind = Kind::boolean, .integer = line[1] - '0'};
    return {.kind = Kind::integer, .integer = std::strtoll(line.c_str(), nullptr, 10)};
  }
  static std::string unquoted(std::string line) {
    const bool quotes = line.size() >= 2 && (line[0] == '\'' || line[0] == '"') && line.back() == line[0];
    return quotes ? line.substr(1, line.size() - 2) : line;
  }
  const std::string& text_of(PickleRef at) const { return pickle_.nodes[at].text; }

  void push(PickleNode node) {
    if (pickle_.nodes.size() >= kMaxNodes) in_.fail("more than " + std::to_string(kMaxNodes) + " objects");
    pickle_.nodes.push_back(std::move(node));
    push_ref(static_cast<PickleRef>(pickle_.nodes.size() - 1));
  }
  void push_ref(PickleRef at) {
    if (stack_.size() >= kMaxStack) in_.fail("the stack is deeper than " + std::to_string(kMaxStack));
    stack_.push_back(at);
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleRef peek() const {
    if (stack_.size() <= floor()) in_.fail("the stack is empty");
    return stack_.back();
  }
  PickleRef pop() {
    const PickleRef at = peek();
    stack_.pop_back();
    return at;
  }
  void pop_or_mark() {
    if (stack_.size() > floor())
      stack_.pop_back();
    else if (!marks_.empty())
      marks_.pop_back();
    else
      in_.fail("the stack is empty");
  }
  std::vector<PickleRef> pop_last(size_t count) {
    if (stack_.size() - floor() < count) in_.fail("the stack is empty");
    std::vector<PickleRef> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) in_.fail("no mark on the stack");
    auto items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void recall(uint64_t at) {
    const auto found = memo_.find(at);
    if (found == memo_.end()) in_.fail("memo " + std::to_string(at) + " was never stored");
    push_ref(found->second);
  }

  ByteReader& in_;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleRef> memo_;
};

}  // namespace

Pickle read_pickle(ByteReader& in) { return Machine(in).run(); }

}  // namespace danqing
