// Byte-pair encoding on bytes, as CLIP and Qwen share it: a list of merges is the whole vocabulary.
// Ids: 256 bytes in the order of data/README.md, with `word_end` the same 256 closing a word, then one id a merge in
// order. A smaller id of a merge is a better merge, so the id is the rank as well.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace danqing {

// Open addressing over 64-bit keys: the tables are built at every start of the program, so building must be cheap.
class IdTable {
 public:
  explicit IdTable(size_t entries);
  void insert(uint64_t key, int32_t id);  // the first id of a key stays; at most `entries` keys
  int32_t find(uint64_t key) const;       // -1: none

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t id = -1;
  };
  size_t slot(uint64_t key) const;
  std::vector<Slot> slots_;
};

class Bpe {
 public:
  // `merges_file`: gzip-compressed text, two symbols a line, lines that open with `#version` ignored. Throws
  // Error(file) with the line where a merge names a symbol that no earlier line makes, or where there are not `merges`
  // of them.
  Bpe(const std::filesystem::path& merges_file, size_t merges, bool word_end);

  // Appends the ids of one word given as bytes. Time n log n in its length.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  int32_t byte_id_[256];
  bool word_end_;
  IdTable pairs_;  // two ids -> the id of their merge
};

}  // namespace danqing
