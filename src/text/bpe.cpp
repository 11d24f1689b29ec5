#include "text/bpe.h"

#include <bit>
#include <functional>
#include <queue>
#include <string>

#include "base/error.h"
#include "text/data_file.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr std::string_view kWordEnd = "</w>";

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15;
  return x ^ (x >> 29);
}

// FNV-1a with a closing mix; the empty text hashes to the offset.
uint64_t hash(std::string_view text, uint64_t seed = 0xCBF29CE484222325) {
  for (unsigned char byte : text) seed = (seed ^ byte) * 0x100000001B3;
  return seed;
}

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

bool is_printable_byte(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

// Byte of each of the first 256 ids, and the printable stand-in that the merge list writes for it.
struct ByteOrder {
  int byte[256];
  std::string shown[256];
};

ByteOrder byte_order() {
  ByteOrder order;
  int id = 0;
  const auto add = [&](int byte, char32_t shown) {
    order.byte[id] = byte;
    append_utf8(order.shown[id++], shown);
  };
  for (int byte = 0; byte < 256; ++byte) {
    if (is_printable_byte(byte)) add(byte, static_cast<char32_t>(byte));
  }
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    if (!is_printable_byte(byte)) add(byte, next++);
  }
  return order;
}

std::string place(const std::filesystem::path& file, size_t line) { return file.string() + ":" + std::to_string(line); }

}  // namespace

IdTable::IdTable(size_t entries) : slots_(std::bit_ceil(entries * 2 + 2)) {}

size_t IdTable::slot(uint64_t key) const {
  size_t at = mixed(key) & (slots_.size() - 1);
  while (slots_[at].id >= 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void IdTable::insert(uint64_t key, int32_t id) {
  Slot& found = slots_[slot(key)];
  if (found.id < 0) found = {key, id};
}

int32_t IdTable::find(uint64_t key) const { return slots_[slot(key)].id; }

Bpe::Bpe(const std::filesystem::path& merges_file, size_t merges, bool word_end) : word_end_(word_end), pairs_(merges) {
  const std::string content = read_gzip(merges_file);
  const ByteOrder order = byte_order();
  IdTable symbols(merges + 512);  // keyed by the hash of the symbol: 64 bits, the list is ours
  for (int id = 0; id < 256; ++id) {
    byte_id_[order.byte[id]] = id;
    symbols.insert(hash(order.shown[id]), id);
    if (word_end) symbols.insert(hash(order.shown[id] + std::string(kWordEnd)), id + 256);
  }
  int32_t next = word_end ? 512 : 256;
  const size_t wanted = static_cast<size_t>(next) + merges;
  size_t line_number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line(content.data() + at, end - at);
    at = end + 1, ++line_number;
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos) throw Error(Fault::file, place(merges_file, line_number) + ": a merge needs two symbols");
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const int32_t left_id = symbols.find(hash(left)), right_id = symbols.find(hash(right));
    if (left_id < 0 || right_id < 0 || static_cast<size_t>(next) == wanted) {
      throw Error(Fault::file, place(merges_file, line_number) + ": merge \"" + std::string(line) +
                                   "\" names an unknown symbol or is one more than " + std::to_string(merges));
    }
    pairs_.insert(pair_key(left_id, right_id), next);
    symbols.insert(hash(right, hash(left)), next++);
  }
  if (static_cast<size_t>(next) != wanted) {
    throw Error(Fault::file, merges_file.string() + ": holds " +
                                 std::to_string(merges - (wanted - static_cast<size_t>(next))) +
                                 " merges, the vocabulary has " + std::to_string(merges));
  }
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  // Symbols as a linked list inside one vector; a merge keeps the left place. -1: merged away.
  struct Symbol {
    int32_t id, previous, next;
  };
  const int32_t count = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i] = {byte_id_[static_cast<unsigned char>(word[i])], i - 1, i + 1 < count ? i + 1 : -1};
  }
  if (word_end_) symbols.back().id += 256;

  // One entry: id of the merge << 32 | place of its left symbol. The smallest is the best, leftmost first.
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue;
  const auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const int32_t merged = pairs_.find(pair_key(symbols[left].id, symbols[symbols[left].next].id));
    if (merged >= 0) queue.push(pair_key(merged, left));
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const int32_t merged = static_cast<int32_t>(queue.top() >> 32),
                  left = static_cast<int32_t>(queue.top() & 0xFFFFFFFF);
    queue.pop();
    const int32_t right = symbols[left].id < 0 ? -1 : symbols[left].next;
    // An entry is stale when a neighbour has changed since: the pair no longer gives this merge.
    if (right < 0 || pairs_.find(pair_key(symbols[left].id, symbols[right].id)) != merged) continue;
    symbols[left] = {merged, symbols[left].previous, symbols[right].next};
    symbols[right].id = -1;
    if (symbols[left].next >= 0) symbols[symbols[left].next].previous = left;
    offer(symbols[left].previous);
    offer(left);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace danqing
