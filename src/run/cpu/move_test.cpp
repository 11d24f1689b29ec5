#include "run/cpu/kernel_testing.h"

namespace danqing::cpu {
namespace {

constexpr Tolerance kExact{0, 0};

void expect_moved(Alone a, const std::function<double(const Alone&, size_t)>& want_at) {
  a.fill(1);
  Values want(static_cast<size_t>(a.node().type.shape.count()));
  for (size_t i = 0; i < want.size(); ++i) want[i] = want_at(a, i);
  SCOPED_TRACE(print(a.graph));
  for (int threads : {1, 3}) {
    Ways ways;
    ways.threads = threads;
    EXPECT_EQ(run_alone(a, ways), want);
  }
}

constexpr DType kTypes[] = {DType::f32, DType::bf16};

TEST(MoveTest, Concat) {
  for (DType type : kTypes)
    for (const auto& [left, right] : {std::pair<size_t, size_t>{1, 1}, {3, 5}, {320, 640}, {20000, 3}}) {
      const auto all = left + right;
      Alone a = alone([&](Build b) {
        b.concat(b.input("a", {type, {2, 3, 5, static_cast<int64_t>(left)}}),
                 b.input("b", {type, {2, 3, 5, static_cast<int64_t>(right)}}));
      });
      expect_moved(a, [&](const Alone& x, size_t i) {
        return i % all < left ? x.in[0][i / all * left + i % all] : x.in[1][i / all * right + i % all - left];
      });
    }
}

// One image of the second part serves several of the first.
TEST(MoveTest, ConcatAlongTokens) {
  for (DType type : kTypes)
    for (size_t rows : {1, 2, 4})
      for (const auto& [left, right, width] : {std::array<size_t, 3>{1, 1, 1}, {3, 5, 7}, {70, 2, 300}}) {
        const size_t all = left + right;
        Alone a = alone([&](Build b) {
          b.concat_rows(
              {b.input("a", {type, {4, static_cast<int64_t>(left), static_cast<int64_t>(width)}}),
               b.input("b", {type,
                             {static_cast<int64_t>(rows), static_cast<int64_t>(right), static_cast<int64_t>(width)}})});
        });
        expect_moved(a, [&, left = left, right = right, width = width](const Alone& x, size_t i) {
          const size_t n = i / width / all, l = i / width % all, c = i % width;
          return l < left ? x.in[0][(n * left + l) * width + c]
                          : x.in[1][(n * rows / 4 * right + l - left) * width + c];
        });
      }
}

TEST(MoveTest, Repeat) {
  for (DType type : kTypes)
    for (const auto& [part, whole] : {std::pair<Shape, Shape>{{1}, {5, 1}}, {{1, 7}, {31, 1, 7}}, {{3, 5}, {2, 3, 5}}}) {
      Alone a = alone([&, part = part, whole = whole](Build b) { b.repeat(b.input("x", {type, part}), whole); });
      expect_moved(a, [&](const Alone& x, size_t i) { return x.in[0][i % x.in[0].size()]; });
    }
}

TEST(MoveTest, PatchifyAndBack) {
  for (DType type : kTypes)
    for (size_t side : {1, 2, 3}) {
      const size_t h = 6, w = 12, c = 5, across = w / side, token = side * side * c;
      const auto in_tokens = [&](size_t i) {  // where value i of a picture stands among the tokens
        const size_t x = i / c % w, y = i / c / w % h, n = i / c / w / h;
        return ((n * h / side + y / side) * across + x / side) * token + (y % side * side + x % side) * c + i % c;
      };
      const TensorType picture{type, {2, 6, 12, 5}};
      Alone back = alone([&](Build b) {
        const auto s = static_cast<int64_t>(side);
        b.unpatchify(b.input("x", {type, {2, 72 / s / s, 5 * s * s}}), s, 6, 12);
      });
      expect_moved(back, [&](const Alone& x, size_t i) { return x.in[0][in_tokens(i)]; });
      Alone there = alone([&](Build b) { b.patchify(b.input("x", picture), static_cast<int64_t>(side)); });
      std::vector<size_t> from(static_cast<size_t>(picture.shape.count()));
      for (size_t i = 0; i < from.size(); ++i) from[in_tokens(i)] = i;
      expect_moved(there, [&](const Alone& x, size_t i) { return x.in[0][from[i]]; });
    }
}

TEST(MoveTest, Slice) {
  for (DType type : kTypes)
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {0, 13}, {5, 13}, {3, 9}}) {
      const size_t width = end - begin;
      Alone a = alone([&](Build b) {
        b.slice(b.input("x", {type, {4, 3, 13}}), static_cast<int64_t>(begin), static_cast<int64_t>(end));
      });
      expect_moved(a, [&](const Alone& x, size_t i) { return x.in[0][i / width * 13 + begin + i % width]; });
    }
}

TEST(MoveTest, Rows) {
  for (DType type : kTypes)
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {0, 8}, {2, 9}, {3, 5}}) {
      const size_t part = (end - begin) * 50;
      Alone a = alone([&](Build b) {
        b.rows(b.input("x", {type, {4, 9, 50}}), static_cast<int64_t>(begin), static_cast<int64_t>(end));
      });
      expect_moved(a, [&](const Alone& x, size_t i) { return x.in[0][i / part * 450 + begin * 50 + i % part]; });
    }
}

TEST(MoveTest, SelectFollowsItsCounter) {
  for (DType type : kTypes)
    for (Counter by : {Counter::step, Counter::half})
      for (int64_t index : {0, 1, 2}) {
        Alone a = alone([&](Build b) { b.select(b.input("x", {type, {6, 70}}), by, 2); });
        a.counters[by] = index;
        expect_moved(a, [&](const Alone& x, size_t i) { return x.in[0][static_cast<size_t>(index) * 140 + i]; });
      }
}

TEST(MoveTest, SelectPastTheEndIsABug) {
  Alone a = alone([&](Build b) { b.select(b.input("x", {DType::f32, {6, 70}}), Counter::step, 2); });
  a.fill(1);
  a.counters[Counter::step] = 3;
  EXPECT_THROW(run_alone(a, {}), Bug);
}

}  // namespace
}  // namespace danqing::cpu
