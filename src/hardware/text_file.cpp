#include "hardware/text_file.h"

#include <charconv>
#include <fstream>

namespace danqing {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out(1 << 20, '\0');
  if (!in) return {};
  in.read(out.data(), std::streamsize(out.size()));
  if (in.bad()) return {};
  out.resize(size_t(in.gcount()));
  return out;
}

std::optional<int64_t> first_integer(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string::npos) return {};
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (error != std::errc()) return {};
  return value;
}

std::optional<int64_t> value_after(const std::string& text, const std::string& key) {
  const std::string wanted = key + ":";
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, wanted.size(), wanted) == 0) return first_integer(text.substr(at + wanted.size(), 64));
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return {};
}

}  // namespace danqing
