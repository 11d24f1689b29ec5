// Attention for one block of queries, for one instruction set. Queries lie side by side in the lanes of vectors: a
// panel is kWidth queries. Scores are then [key][query], softmax needs no sum across lanes, and both products,
// scores = K Q^T and result = V^T P, are the same small kernel that broadcasts values of K or V as they lie in memory:
// any head size and any number of keys, without padding. The score matrix is never held, only a panel's block of it.
#if defined(DANQING_RUN_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DANQING_RUN_CPU_ATTENTION_INL_H_
#undef DANQING_RUN_CPU_ATTENTION_INL_H_
#else
#define DANQING_RUN_CPU_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "run/cpu/attention.h"
#include "run/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {

// A tile of kTile x kVectors sums, and what it multiplies, fills the registers: 16 of them, or 32.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr size_t kVectors = 4;
#else
inline constexpr size_t kVectors = 2;
#endif
inline constexpr size_t kTile = 6;
inline constexpr size_t kWidth = kVectors * kLanes;

// How work is cut: depends on the shape and the instruction set only, never on the number of threads.
struct AttentionBlocks {
  size_t panels = 1;  // of queries that share a copy of a block of keys
  size_t keys = 1;    // in a block
};

inline AttentionBlocks blocks_for(const AttentionShape& s) {
  const auto size = static_cast<size_t>(s.size), queries = static_cast<size_t>(s.queries);
  const size_t fits = std::clamp<size_t>(65536 / (2 * size * kWidth), 1, std::max<size_t>(1, 128 / kWidth));
  const size_t keys = std::clamp<size_t>(16384 / size / kTile * kTile, 4 * kTile, 16 * kTile);
  return {std::min(fits, (queries + kWidth - 1) / kWidth), std::min(keys, static_cast<size_t>(s.keys))};
}

// One thread's memory, in floats.
struct AttentionScratch {
  float *keys, *values;    // [block of keys, size], f32
  float* scores;           // [block of keys, kWidth]: of one panel
  float* keep;             // [kWidth]: what the new maximum leaves of the sums so far
  float* row;              // [size]
  float *queries, *sums;   // [panels, size, kWidth]
  float *maxima, *totals;  // [panels, kWidth]
  size_t floats;           // all of them

  AttentionScratch(float* memory, const AttentionShape& s, AttentionBlocks b) {
    const auto size = static_cast<size_t>(s.size);
    floats = 0;
    const auto take = [&](size_t count) {
      float* part = memory ? memory + floats : nullptr;
      floats += (count + 15) / 16 * 16;  // 64 bytes
      return part;
    };
    keys = take(b.keys * size), values = take(b.keys * size);
    scores = take(b.keys * kWidth), keep = take(kWidth), row = take(size);
    queries = take(b.panels * size * kWidth), sums = take(b.panels * size * kWidth);
    maxima = take(b.panels * kWidth), totals = take(b.panels * kWidth);
  }
};

// out[r, :] = keep * out[r, :] + sum over k < depth of a[r * row_step + k * step] * b[k, :], for kRows rows of a
// panel's width; without kKeep out starts at 0.
template <size_t kRows, bool kKeep>
HWY_NOINLINE void multiply_tile(const float* HWY_RESTRICT a, size_t row_step, size_t step, const float* HWY_RESTRICT b,
                                size_t depth, const float* HWY_RESTRICT keep, float* HWY_RESTRICT out) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      sum[r][v] = all(0);
      if (kKeep) sum[r][v] = hn::Mul(load(keep + v * kLanes), load(out + r * kWidth + v * kLanes));
    }
  }
  for (size_t k = 0; k < depth; ++k, a += step, b += kWidth) {
    Vector line[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) line[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const Vector x = all(a[r * row_step]);
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, line[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) store(sum[r][v], out + r * kWidth + v * kLanes);
  }
}

// All rows, in tiles of nearly the same height.
template <bool kKeep>
void multiply(const float* a, size_t rows, size_t row_step, size_t step, const float* b, size_t depth,
              const float* keep, float* out) {
  for (size_t tiles = (rows + kTile - 1) / kTile; tiles > 0; --tiles) {
    const size_t height = (rows + tiles - 1) / tiles;
    switch (height) {
      case 1:
        multiply_tile<1, kKeep>(a, row_step, step, b, depth, keep, out);
        break;
      case 2:
        multiply_tile<2, kKeep>(a, row_step, step, b, depth, keep, out);
        break;
      case 3:
        multiply_tile<3, kKeep>(a, row_step, step, b, depth, keep, out);
        break;
      case 4:
        multiply_tile<4, kKeep>(a, row_step, step, b, depth, keep, out);
        break;
      case 5:
        multiply_tile<5, kKeep>(a, row_step, step, b, depth, keep, out);
        break;
      default:
        multiply_tile<6, kKeep>(a, row_step, step, b, depth, keep, out);
    }
    a += height * row_step, out += height * kWidth, rows -= height;
  }
}

// Queries [first, first + kWidth) into lanes, scaled so that 2^score is what softmax sums. Past the end: zeros.
template <class T>
void load_panel(const T* q, size_t stride, size_t first, size_t end, size_t size, float* row, float* panel) {
  const float scale = 1.44269504f / std::sqrt(static_cast<float>(size));
  for (size_t w = 0; w < kWidth; ++w) {
    if (first + w < end) {
      map(
          size, row, [&](Vector x) HWY_ATTR { return hn::Mul(x, all(scale)); }, q + (first + w) * stride);
      for (size_t c = 0; c < size; ++c) panel[c * kWidth + w] = row[c];
    } else {
      for (size_t c = 0; c < size; ++c) panel[c * kWidth + w] = 0;
    }
  }
}

template <class T>
void store_panel(const float* sums, const float* totals, size_t stride, size_t first, size_t end, size_t size,
                 float* row, T* out) {
  for (size_t w = 0; w < kWidth && first + w < end; ++w) {
    for (size_t c = 0; c < size; ++c) row[c] = sums[c * kWidth + w];
    const Vector scale = all(1 / totals[w]);
    map(
        size, out + (first + w) * stride, [&](Vector x) HWY_ATTR { return hn::Mul(x, scale); }, row);
  }
}

// Key first_key + j may be seen by query first_query + w only if it is not later.
inline void hide_future(size_t first_key, size_t keys, size_t first_query, float* scores) {
  for (size_t j = 0; j < keys; ++j)
    for (size_t w = 0; w < kWidth && first_query + w < first_key + j; ++w) scores[j * kWidth + w] = kHidden;
}

// Scores become 2^(score - maximum so far), and join the totals; `keep` scales what was summed under older maxima.
inline void softmax_step(size_t keys, float* scores, float* maxima, float* totals, float* keep) {
  for (size_t v = 0; v < kWidth; v += kLanes) {
    const Vector before = load(maxima + v);
    Vector maximum = before;
    for (size_t j = 0; j < keys; ++j) maximum = hn::Max(maximum, load(scores + j * kWidth + v));
    Vector total = all(0);
    for (size_t j = 0; j < keys; ++j) {
      const Vector p = exp2(hn::Sub(load(scores + j * kWidth + v), maximum));
      store(p, scores + j * kWidth + v);
      total = hn::Add(total, p);
    }
    const Vector left = exp2(hn::Sub(before, maximum));
    store(hn::MulAdd(load(totals + v), left, total), totals + v);
    store(left, keep + v);
    store(maximum, maxima + v);
  }
}

// One panel meets one block of keys.
inline void panel_step(const AttentionShape& s, const AttentionScratch& m, size_t panel, size_t first_query,
                       size_t first_key, size_t keys) {
  const auto size = static_cast<size_t>(s.size);
  if (s.causal && first_key >= first_query + kWidth) return;
  if (s.causal) keys = std::min(keys, first_query + kWidth - first_key);
  float* sums = m.sums + panel * size * kWidth;
  multiply<false>(m.keys, keys, size, 1, m.queries + panel * size * kWidth, size, nullptr, m.scores);
  if (s.causal && first_key + keys > first_query + 1) hide_future(first_key, keys, first_query, m.scores);
  softmax_step(keys, m.scores, m.maxima + panel * kWidth, m.totals + panel * kWidth, m.keep);
  if (first_key == 0) {
    multiply<false>(m.values, size, 1, size, m.scores, keys, nullptr, sums);
  } else {
    multiply<true>(m.values, size, 1, size, m.scores, keys, m.keep, sums);
  }
}

// Block `item` of (image, head, block of queries).
template <class T>
void attend_block(const AttentionShape& s, const T* q, const T* k, const T* v, T* out, size_t item, float* memory) {
  const AttentionBlocks b = blocks_for(s);
  const AttentionScratch m(memory, s, b);
  const auto size = static_cast<size_t>(s.size), end = static_cast<size_t>(s.queries);
  const auto all_keys = static_cast<size_t>(s.keys);
  const auto heads = static_cast<size_t>(s.heads), kv_heads = static_cast<size_t>(s.kv_heads);
  const size_t height = b.panels * kWidth, blocks = (end + height - 1) / height;
  const size_t begin = item % blocks * height, head = item / blocks % heads, image = item / blocks / heads;
  const size_t panels = std::min(b.panels, (end - begin + kWidth - 1) / kWidth);
  const size_t kv_image = image * static_cast<size_t>(s.kv_images) / static_cast<size_t>(s.images);
  const size_t stride = heads * size, kv_stride = kv_heads * size;
  const size_t q_offset = image * end * stride + head * size;
  const size_t kv_offset = kv_image * all_keys * kv_stride + head / (heads / kv_heads) * size;

  for (size_t p = 0; p < panels; ++p)
    load_panel(q + q_offset, stride, begin + p * kWidth, end, size, m.row, m.queries + p * size * kWidth);
  std::fill_n(m.maxima, panels * kWidth, kHidden);
  std::fill_n(m.totals, panels * kWidth, 0.0f);
  const size_t seen = s.causal ? std::min(all_keys, begin + panels * kWidth) : all_keys;
  for (size_t first = 0; first < seen; first += b.keys) {
    const size_t keys = std::min(b.keys, seen - first);
    for (size_t j = 0; j < keys; ++j) {
      const size_t from = kv_offset + (first + j) * kv_stride;
      map(size, m.keys + j * size, Identity(), k + from);
      map(size, m.values + j * size, Identity(), v + from);
    }
    for (size_t p = 0; p < panels; ++p) panel_step(s, m, p, begin + p * kWidth, first, keys);
  }
  for (size_t p = 0; p < panels; ++p)
    store_panel(m.sums + p * size * kWidth, m.totals + p * kWidth, stride, begin + p * kWidth, end, size, m.row,
                out + q_offset);
}

}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
