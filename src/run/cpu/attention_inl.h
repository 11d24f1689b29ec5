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
inline constexpr size_t kGroup = kWidth < 4 ? kWidth : 4;  // queries that are transposed together

// How work is cut: by shape and instruction set only, never by the number of threads. Sizes are those that measured
// best: a thread's panels and copies stay near 0.5 MiB, and a copy of keys serves some 256 queries.
struct AttentionBlocks {
  size_t panels = 1;  // of queries that share a copy of a block of keys
  size_t keys = 1;    // in a block
};

inline AttentionBlocks blocks_for(const AttentionShape& s) {
  const auto size = static_cast<size_t>(s.size), queries = static_cast<size_t>(s.queries);
  const size_t fits = std::clamp<size_t>(131072 / (2 * size * kWidth), 1, std::max<size_t>(1, 256 / kWidth));
  const size_t keys = std::clamp<size_t>(30720 / size / kTile * kTile, kTile, 16 * kTile);
  return {std::min(fits, (queries + kWidth - 1) / kWidth), std::min(keys, static_cast<size_t>(s.keys))};
}

// One thread's memory, in floats.
struct AttentionScratch {
  float *keys, *values;    // [block of keys, size], f32
  float* scores;           // [block of keys, kWidth]: of one panel
  float* keep;             // [kWidth]: what the new maximum leaves of the sums so far
  float* rows;             // [kGroup, size]
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
    scores = take(b.keys * kWidth), keep = take(kWidth), rows = take(kGroup * size);
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

// to[c, r] = from[r, c]
inline void transpose(const float* from, size_t rows, size_t columns, size_t from_stride, float* to, size_t to_stride) {
  size_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 4> four;
  whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (size_t r = 0; r < whole_rows; r += 4) {
    for (size_t c = 0; c < whole_columns; c += 4) {
      const float* at = from + r * from_stride + c;
      const auto x0 = hn::LoadU(four, at), x1 = hn::LoadU(four, at + from_stride);
      const auto x2 = hn::LoadU(four, at + 2 * from_stride), x3 = hn::LoadU(four, at + 3 * from_stride);
      const auto low01 = hn::InterleaveLower(four, x0, x1), low23 = hn::InterleaveLower(four, x2, x3);
      const auto high01 = hn::InterleaveUpper(four, x0, x1), high23 = hn::InterleaveUpper(four, x2, x3);
      float* out = to + c * to_stride + r;
      hn::StoreU(hn::ConcatLowerLower(four, low23, low01), four, out);
      hn::StoreU(hn::ConcatUpperUpper(four, low23, low01), four, out + to_stride);
      hn::StoreU(hn::ConcatLowerLower(four, high23, high01), four, out + 2 * to_stride);
      hn::StoreU(hn::ConcatUpperUpper(four, high23, high01), four, out + 3 * to_stride);
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = from[r * from_stride + c];
}

// Queries [first, first + kWidth) into lanes, scaled so that 2^score is what softmax sums. Past the end: zeros.
template <class T>
void load_panel(const T* q, size_t stride, size_t first, size_t end, size_t size, float* rows, float* panel) {
  const Vector scale = all(1.44269504f / std::sqrt(static_cast<float>(size)));
  for (size_t w = 0; w < kWidth; w += kGroup) {
    for (size_t i = 0; i < kGroup; ++i) {
      float* row = rows + i * size;
      if (first + w + i < end) {
        map(
            size, row, [&](Vector x) HWY_ATTR { return hn::Mul(x, scale); }, q + (first + w + i) * stride);
      } else {
        std::fill_n(row, size, 0.0f);
      }
    }
    transpose(rows, kGroup, size, size, panel + w, kWidth);
  }
}

template <class T>
void store_panel(const float* sums, const float* totals, size_t stride, size_t first, size_t end, size_t size,
                 float* rows, T* out) {
  for (size_t w = 0; w < kWidth && first + w < end; w += kGroup) {
    transpose(sums + w, size, kGroup, kWidth, rows, size);
    for (size_t i = 0; i < kGroup && first + w + i < end; ++i) {
      const Vector scale = all(1 / totals[w + i]);
      map(
          size, out + (first + w + i) * stride, [&](Vector x) HWY_ATTR { return hn::Mul(x, scale); }, rows + i * size);
    }
  }
}

// Key first_key + j may be seen by query first_query + w only if it is not later.
inline void hide_future(size_t first_key, size_t keys, size_t first_query, float* scores) {
  for (size_t j = 0; j < keys; ++j)
    for (size_t w = 0; w < kWidth && first_query + w < first_key + j; ++w) scores[j * kWidth + w] = kHidden;
}

// Scores become 2^(score - maximum so far), and join the totals; `keep` scales what was summed under older maxima.
inline void softmax_step(size_t keys, float* scores, float* maxima, float* totals, float* keep) {
  Vector maximum[kVectors], total[kVectors];
#pragma GCC unroll 8
  for (size_t v = 0; v < kVectors; ++v) maximum[v] = load(maxima + v * kLanes), total[v] = all(0);
  for (size_t j = 0; j < keys; ++j) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) maximum[v] = hn::Max(maximum[v], load(scores + j * kWidth + v * kLanes));
  }
  for (size_t j = 0; j < keys; ++j) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      float* at = scores + j * kWidth + v * kLanes;
      const Vector p = exp2(hn::Sub(load(at), maximum[v]));
      store(p, at);
      total[v] = hn::Add(total[v], p);
    }
  }
#pragma GCC unroll 8
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t at = v * kLanes;
    const Vector left = exp2(hn::Sub(load(maxima + at), maximum[v]));
    store(hn::MulAdd(load(totals + at), left, total[v]), totals + at);
    store(left, keep + at);
    store(maximum[v], maxima + at);
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

// What one piece of work, `item` of (image, head, block of queries), reads and writes.
struct AttentionPiece {
  size_t begin, end, panels;   // queries of the block; its panels
  size_t stride, kv_stride;    // values from row to row
  size_t q_offset, kv_offset;  // of the image and head

  AttentionPiece(const AttentionShape& s, AttentionBlocks b, size_t item) {
    const auto size = static_cast<size_t>(s.size), queries = static_cast<size_t>(s.queries);
    const auto heads = static_cast<size_t>(s.heads), kv_heads = static_cast<size_t>(s.kv_heads);
    const size_t height = b.panels * kWidth, blocks = (queries + height - 1) / height;
    const size_t head = item / blocks % heads, image = item / blocks / heads;
    const size_t kv_image = image * static_cast<size_t>(s.kv_images) / static_cast<size_t>(s.images);
    begin = item % blocks * height, end = std::min(begin + height, queries);
    panels = (end - begin + kWidth - 1) / kWidth;
    stride = heads * size, kv_stride = kv_heads * size;
    q_offset = image * queries * stride + head * size;
    kv_offset = kv_image * static_cast<size_t>(s.keys) * kv_stride + head / (heads / kv_heads) * size;
  }
};

// Asks for rows that will be copied soon: rows of a head lie far apart, which the processor does not foresee.
template <class T>
void prefetch_rows(const T* k, const T* v, size_t begin, size_t end, size_t stride, size_t size) {
  for (size_t j = begin; j < end; ++j)
    for (size_t c = 0; c < size; c += 64 / sizeof(T))
      __builtin_prefetch(k + j * stride + c), __builtin_prefetch(v + j * stride + c);
}

template <class T>
void attend_piece(const AttentionShape& s, const T* q, const T* k, const T* v, T* out, size_t item, float* memory) {
  const AttentionBlocks b = blocks_for(s);
  const AttentionPiece at(s, b, item);
  const AttentionScratch m(memory, s, b);
  const auto size = static_cast<size_t>(s.size), all_keys = static_cast<size_t>(s.keys);
  q += at.q_offset, out += at.q_offset, k += at.kv_offset, v += at.kv_offset;
  for (size_t p = 0; p < at.panels; ++p)
    load_panel(q, at.stride, at.begin + p * kWidth, at.end, size, m.rows, m.queries + p * size * kWidth);
  std::fill_n(m.maxima, at.panels * kWidth, kHidden);
  std::fill_n(m.totals, at.panels * kWidth, 0.0f);
  const size_t seen = s.causal ? std::min(all_keys, at.end) : all_keys;
  for (size_t first = 0; first < seen; first += b.keys) {
    const size_t keys = std::min(b.keys, seen - first), next = first + keys, after = std::min(next + b.keys, seen);
    for (size_t j = 0; j < keys; ++j) {
      map(size, m.keys + j * size, Identity(), k + (first + j) * at.kv_stride);
      map(size, m.values + j * size, Identity(), v + (first + j) * at.kv_stride);
    }
    for (size_t p = 0; p < at.panels; ++p) {
      prefetch_rows(k, v, next + (after - next) * p / at.panels, next + (after - next) * (p + 1) / at.panels,
                    at.kv_stride, size);
      panel_step(s, m, p, at.begin + p * kWidth, first, keys);
    }
  }
  for (size_t p = 0; p < at.panels; ++p)
    store_panel(m.sums + p * size * kWidth, m.totals + p * kWidth, at.stride, at.begin + p * kWidth, at.end, size,
                m.rows, out);
}

}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
