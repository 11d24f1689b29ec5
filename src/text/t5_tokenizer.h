// T5's tokenizer as Flux uses it: a normaliser map, words at spaces, and in each word the likeliest pieces (unigram).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace danqing {

inline constexpr int32_t kT5Pad = 0;
inline constexpr int32_t kT5End = 1;
inline constexpr int32_t kT5Unknown = 2;

// SentencePiece's compiled map of replacements: a double-array trie over bytes, and the replacements, each closed by
// NUL.
class CharacterMap {
 public:
  CharacterMap() = default;
  explicit CharacterMap(std::string_view compiled);  // throws Error(file) where the sizes in it do not fit

  // Each grapheme of up to 5 bytes is looked up whole, then each of its characters; what starts with an entry is
  // replaced as a whole (the shortest entry counts), as the reference implementation does.
  std::string apply(std::string_view text) const;

 private:
  // True where an entry begins `text`; `replacement` is then its text.
  bool find(std::string_view text, std::string_view& replacement) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

class T5Tokenizer {
 public:
  // `data`: the folder data/tokenizer. Throws Error(file).
  explicit T5Tokenizer(const std::filesystem::path& data);

  // With the closing end token, without padding (Flux pads with 0 to 512). Invalid UTF-8 is read as U+FFFD, byte by
  // byte; typed markers (`</s>`, `<extra_id_0>`) give their tokens. Throws Error(request) above kMaxPromptBytes.
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  // Every beginning of a piece is there too, so that a search ends early: id -1.
  struct Piece {
    int32_t id = -1;
    double score = 0;
  };
  std::string normalize(std::string_view text, bool first) const;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  CharacterMap map_;
  std::unordered_map<std::string, Piece> pieces_;
  std::vector<std::pair<std::string, int32_t>> markers_;  // all begin with `<`
  double unknown_score_ = 0;
};

}  // namespace danqing
