#include <cmath>

#include "run/cpu/kernel_testing.h"

namespace danqing::cpu {
namespace {

struct Case {
  int64_t images, kv_images, queries, keys;
  int heads, kv_heads;
  int64_t size;
  bool causal = false;
};

Alone build(const Case& c, DType type) {
  return alone([&](Build b) {
    const Value q = b.input("q", {type, {c.images, c.queries, c.heads * c.size}});
    const Value k = b.input("k", {type, {c.kv_images, c.keys, c.kv_heads * c.size}});
    const Value v = b.input("v", {type, {c.kv_images, c.keys, c.kv_heads * c.size}});
    b.attention(q, k, v, c.heads, c.kv_heads, c.causal);
  });
}

Values softmax(Values scores) {
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - maximum);
  for (double& s : scores) s /= sum;
  return scores;
}

Values reference(const Case& c, const Alone& a) {
  const Values &q = a.in[0], &k = a.in[1], &v = a.in[2];
  Values out(q.size(), 0);
  for (int64_t n = 0; n < c.images; ++n)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t seen = c.causal ? std::min(c.keys, i + 1) : c.keys;
        const int64_t q_at = ((n * c.queries + i) * c.heads + h) * c.size;
        const auto kv_at = [&](int64_t j) {
          return ((n * c.kv_images / c.images * c.keys + j) * c.kv_heads + h * c.kv_heads / c.heads) * c.size;
        };
        Values scores(static_cast<size_t>(seen));
        for (int64_t j = 0; j < seen; ++j) {
          double dot = 0;
          for (int64_t x = 0; x < c.size; ++x)
            dot += q[static_cast<size_t>(q_at + x)] * k[static_cast<size_t>(kv_at(j) + x)];
          scores[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(c.size));
        }
        const Values p = softmax(scores);
        for (int64_t j = 0; j < seen; ++j)
          for (int64_t x = 0; x < c.size; ++x)
            out[static_cast<size_t>(q_at + x)] += p[static_cast<size_t>(j)] * v[static_cast<size_t>(kv_at(j) + x)];
      }
  return out;
}

void check(const Case& c, double scale = 2) {
  for (DType type : {DType::f32, DType::bf16}) {
    Alone a = build(c, type);
    a.fill(7, scale);
    expect_kernel(a, reference(c, a), {2e-6 * scale, 2e-5});
  }
}

TEST(AttentionTest, HeadSizes) {
  for (int64_t size : {1, 4, 8, 13, 40, 64, 80, 128, 160, 512}) check({1, 1, 37, 101, 2, 2, size});
}

TEST(AttentionTest, Lengths) {
  for (int64_t queries : {1, 5, 77, 154, 257})
    for (int64_t keys : {1, 2, 77, 154, 193}) check({1, 1, queries, keys, 1, 1, 40});
}

TEST(AttentionTest, LongSequences) {
  check({1, 1, 33, 4096, 1, 1, 8});
  check({1, 1, 4097, 19, 1, 1, 8});
  check({1, 1, 40, 4097, 1, 1, 40});
}

TEST(AttentionTest, Causal) {
  for (int64_t length : {1, 2, 16, 77, 154, 300}) check({1, 1, length, length, 2, 2, 20, true});
  check({1, 1, 90, 50, 1, 1, 8, true});
  check({1, 1, 50, 190, 1, 1, 8, true});
}

TEST(AttentionTest, SharedHeadsAndImages) {
  check({2, 2, 21, 30, 6, 2, 16});
  check({4, 2, 9, 30, 2, 2, 16});
  check({6, 1, 9, 30, 4, 1, 16});
  check({2, 2, 45, 45, 4, 2, 16, true});
}

// Images with fewer keys give what attention over those keys alone gives; keys past the end are never looked at.
TEST(AttentionTest, CutsKeysByImage) {
  for (DType type : {DType::f32, DType::bf16})
    for (const Case& c :
         {Case{2, 2, 21, 130, 4, 2, 16}, Case{4, 2, 45, 40, 1, 1, 24}, Case{2, 2, 30, 30, 2, 2, 8, true}}) {
      Alone a = alone([&](Build b) {
        const Value q = b.input("q", {type, {c.images, c.queries, c.heads * c.size}});
        const Value k = b.input("k", {type, {c.kv_images, c.keys, c.kv_heads * c.size}});
        const Value v = b.input("v", {type, {c.kv_images, c.keys, c.kv_heads * c.size}});
        b.attention(q, k, v, c.heads, c.kv_heads, c.causal, b.input("lengths", {DType::i32, {c.kv_images}}));
      });
      a.fill(9, 2);
      a.in[3] = {static_cast<double>(c.keys), static_cast<double>(c.keys - 17)};
      Values want;
      for (int64_t n = 0; n < c.images; ++n) {
        const int64_t m = n * c.kv_images / c.images;
        Case one = c;
        one.images = one.kv_images = 1, one.keys = static_cast<int64_t>(a.in[3][static_cast<size_t>(m)]);
        const auto part = [](const Values& all, int64_t begin, int64_t count) {
          return Values(all.begin() + begin, all.begin() + begin + count);
        };
        const int64_t q = c.queries * c.heads * c.size, kv = c.kv_heads * c.size;
        Alone alone = build(one, type);
        alone.in = {part(a.in[0], n * q, q), part(a.in[1], m * c.keys * kv, one.keys * kv),
                    part(a.in[2], m * c.keys * kv, one.keys * kv)};
        for (double value : reference(one, alone)) want.push_back(value);
      }
      for (size_t i : {1u, 2u}) a.in[i].back() = std::nan("");
      expect_kernel(a, want, {4e-6, 2e-5});
    }
}

// Products of 80 * 80 * 64 overflow f16; those of 300 need more than bf16's digits: scores stay f32.
TEST(AttentionTest, LargeScores) {
  check({1, 1, 20, 40, 1, 1, 64}, 80);
  Alone a = build({1, 1, 7, 9, 1, 1, 64}, DType::f32);
  a.fill(1);
  std::fill(a.in[0].begin(), a.in[0].end(), 300);
  std::fill(a.in[1].begin(), a.in[1].end(), 300);
  expect_kernel(a, reference({1, 1, 7, 9, 1, 1, 64}, a));
}

TEST(AttentionTest, KeepsNaN) {
  for (size_t input : {0u, 1u, 2u}) {
    Alone a = build({1, 1, 20, 200, 1, 1, 8}, DType::f32);
    a.fill(1);
    a.in[input][3] = std::nan("");
    on_every_target([&] { EXPECT_TRUE(std::isnan(run_alone(a, {})[3])) << "input " << input; });
  }
}

}  // namespace
}  // namespace danqing::cpu
