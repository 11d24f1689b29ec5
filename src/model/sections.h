// Texts of different lengths as one sequence [1, sum of lengths, C]: layers see all tokens at once, attention only
// those of the same text. No padding, one copy of the weights.
#pragma once

#include <span>

#include "graph/build.h"

namespace danqing {

inline Value attend_within(const Build& b, Value q, Value k, Value v, std::span<const int64_t> lengths, int heads,
                           int kv_heads, bool causal) {
  std::vector<Value> parts;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const auto part = [&](Value x) { return b.rows(x, begin, begin + length); };
    parts.push_back(b.attention(part(q), part(k), part(v), heads, kv_heads, causal));
    begin += length;
  }
  DANQING_CHECK(begin == b.shape(q)[1]);
  return b.concat_rows(std::move(parts));
}

}  // namespace danqing
