#include "weights/container.h"

#include <limits>

#include "base/error.h"

namespace danqing {

std::string in_quotes(std::string_view name) {
  constexpr size_t kMost = 160;
  std::string out = "\"";
  for (char c : name.substr(0, kMost)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (name.size() > kMost ? "...\"" : "\"");
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
