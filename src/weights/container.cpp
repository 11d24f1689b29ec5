#include "weights/container.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace danqing {

namespace {

// The length of the UTF-8 sequence at the front, 0 where there is none.
size_t sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                        : (byte(0) & 0xf0) == 0xe0          ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string in_quotes(std::string_view name) {
  constexpr size_t kMost = 160;
  std::string out = "\"";
  while (!name.empty() && out.size() < kMost) {
    const size_t length = sequence(name);
    const bool control = length == 1 && (static_cast<unsigned char>(name[0]) < 0x20 || name[0] == 0x7f);
    if (length == 0 || control)
      out += '?';
    else
      out += name.substr(0, length);
    name.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + (name.empty() ? "\"" : "...\"");
}

void fail_in(const File& file, const std::string& why) { throw Error(Fault::file, file.path().string() + ": " + why); }

Shape checked_shape(const File& file, std::string_view tensor, std::span<const uint64_t> sizes) {
  if (sizes.size() > Shape::kMaxRank)
    fail_in(file, in_quotes(tensor) + " has " + std::to_string(sizes.size()) + " dimensions, at most " +
                      std::to_string(Shape::kMaxRank) + " are read");
  // A zero would hide an overflow of the others, so the product is taken over the rest.
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t dims[Shape::kMaxRank] = {};
  unsigned __int128 product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) product *= sizes[i];
    if (product > kMost || sizes[i] > kMost)
      fail_in(file, in_quotes(tensor) + " has sizes whose product is past 2^63 (dimension " + std::to_string(i) +
                        " is " + std::to_string(sizes[i]) + ")");
    dims[i] = static_cast<int64_t>(sizes[i]);
  }
  return Shape(std::span<const int64_t>(dims, sizes.size()));
}

}  // namespace danqing
