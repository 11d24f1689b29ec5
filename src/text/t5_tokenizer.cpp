#include "text/t5_tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/clip_tokenizer.h"
#include "text/data_file.h"
#include "text/utf8.h"

namespace danqing {

namespace {

constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581 stands for a space
constexpr double kUnknownPenalty = 10;

// Base64 (RFC 4648); characters outside the alphabet are skipped.
std::string decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  int8_t value[256];
  std::fill(std::begin(value), std::end(value), int8_t{-1});
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (unsigned char letter : text) {
    if (value[letter] < 0) continue;
    bits = bits << 6 | static_cast<uint32_t>(value[letter]);
    if ((count += 6) >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return out;
}

// Runs of two and more spaces become one space sign; then each single space.
std::string with_space_signs(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ' ') {
      out += text[at];
    } else if (at == 0 || text[at - 1] != ' ') {
      out += kSpaceSign;
    }
  }
  return out;
}

}  // namespace

T5Tokenizer::T5Tokenizer(const std::filesystem::path& data) {
  const std::filesystem::path file = data / "t5" / "tokenizer.json.gz";
  try {
    const nlohmann::json json = nlohmann::json::parse(read_gzip(file));
    const auto& normalizer = json.at("normalizer").at("normalizers").at(0);
    map_ = CharacterMap(decode_base64(normalizer.at("precompiled_charsmap").get_ref<const std::string&>()));
    const auto& vocabulary = json.at("model").at("vocab");
    double least = std::numeric_limits<double>::max();
    pieces_.reserve(vocabulary.size() * 3);
    int32_t id = 0;
    for (const auto& entry : vocabulary) {
      const std::string& piece = entry.at(0).get_ref<const std::string&>();
      const double score = entry.at(1);
      pieces_[piece] = {id++, score};
      for (size_t end = piece.empty() ? 0 : step_back(piece, piece.size()); end > 0; end = step_back(piece, end)) {
        if (!pieces_.try_emplace(piece.substr(0, end)).second) break;  // then the shorter ones are there as well
      }
      least = std::min(least, score);
    }
    unknown_score_ = least - kUnknownPenalty;
    for (const auto& token : json.at("added_tokens")) markers_.emplace_back(token.at("content"), token.at("id"));
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::file, file.string() + ": is no T5 tokenizer (" + error.what() + ")");
  }
}

std::string T5Tokenizer::normalize(std::string_view text, bool first) const {
  std::string mapped = map_.apply(text);
  mapped.resize(trim_spaces(mapped, 0, mapped.size()));
  std::string out = with_space_signs(mapped);
  if (first && !out.empty() && !out.starts_with(kSpaceSign)) out.insert(0, kSpaceSign);
  return out;
}

// Viterbi from left to right; the first of equally likely ways stays.
void T5Tokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  struct Best {
    double score = 0;
    size_t begin = SIZE_MAX;
    int32_t id = kT5Unknown;
  };
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    score += best[begin].score;
    if (best[end].begin == SIZE_MAX || score > best[end].score) best[end] = {score, begin, id};
  };
  std::string key;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = begin;
    next_code_point(word, end);
    const size_t next = end;
    bool single = false;
    key.clear();
    for (size_t from = begin;;) {
      key.append(word, from, end - from);
      const auto found = pieces_.find(key);
      if (found == pieces_.end()) break;
      if (found->second.id >= 0) {
        offer(begin, end, found->second.score, found->second.id);
        single |= end == next;
      }
      if (end == word.size()) break;
      from = end;
      next_code_point(word, end);
    }
    if (!single) offer(begin, next, unknown_score_, kT5Unknown);
    begin = next;
  }
  std::vector<int32_t> backwards;
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    const int32_t id = best[end].id;
    // Neighbours that are unknown count as one.
    if (id != kT5Unknown || backwards.empty() || backwards.back() != kT5Unknown) backwards.push_back(id);
  }
  ids.insert(ids.end(), backwards.rbegin(), backwards.rend());
}

std::vector<int32_t> T5Tokenizer::encode(std::string_view text) const {
  check_prompt_size(text);
  const std::string valid = to_utf8(to_utf32(text));
  std::vector<int32_t> ids;
  const auto encode_section = [&](size_t begin, size_t end) {
    const std::string section = normalize(std::string_view(valid).substr(begin, end - begin), begin == 0);
    for (size_t at = 0; at < section.size();) {
      const size_t next = std::min(section.find(kSpaceSign, at + 1), section.size());
      encode_word(std::string_view(section).substr(at, next - at), ids);
      at = next;
    }
  };
  size_t begin = 0;
  for (size_t at = valid.find('<'); at != valid.npos; at = valid.find('<', at)) {
    const std::string_view rest = std::string_view(valid).substr(at);
    const auto marker =
        std::find_if(markers_.begin(), markers_.end(), [&](const auto& m) { return rest.starts_with(m.first); });
    if (marker == markers_.end()) {
      ++at;
      continue;
    }
    encode_section(begin, at);
    ids.push_back(marker->second);
    begin = at += marker->first.size();
  }
  encode_section(begin, valid.size());
  ids.push_back(kT5End);
  return ids;
}

}  // namespace danqing
