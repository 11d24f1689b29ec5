#include "run/cpu/kernel_testing.h"

namespace danqing::cpu {
namespace {

struct Case {
  int64_t images, tables, tokens, heads, size;
};

void check(const Case& c, bool halves, DType type) {
  Alone a = alone([&](Build b) {
    b.rope(b.input("x", {type, {c.images, c.tokens, c.heads * c.size}}),
           b.input("table", {DType::f32, {c.tables, c.tokens, 2 * c.size}}), halves);
  });
  a.fill(1);
  Values want(a.in[0].size());
  for (int64_t i = 0; i < std::ssize(want); ++i) {
    const int64_t d = i % c.size, token = i / (c.heads * c.size), n = token / c.tokens;
    const int64_t partner = halves ? (d + c.size / 2) % c.size : d ^ 1;
    const int64_t row = (n * c.tables / c.images * c.tokens + token % c.tokens) * 2 * c.size;
    const auto table = [&](int64_t at) { return a.in[1][static_cast<size_t>(row + at)]; };
    want[static_cast<size_t>(i)] =
        a.in[0][static_cast<size_t>(i)] * table(d) + a.in[0][static_cast<size_t>(i - d + partner)] * table(c.size + d);
  }
  expect_kernel(a, want);
}

TEST(RopeTest, TurnsPairsAndHalves) {
  for (DType type : {DType::f32, DType::bf16})
    for (bool halves : {false, true})
      for (const Case& c : {Case{1, 1, 1, 1, 2}, Case{1, 1, 5, 3, 6}, Case{2, 1, 3, 2, 36}, Case{4, 2, 7, 2, 32},
                            Case{2, 2, 40, 3, 128}, Case{3, 1, 4, 1, 50}})
        check(c, halves, type);
}

}  // namespace
}  // namespace danqing::cpu
