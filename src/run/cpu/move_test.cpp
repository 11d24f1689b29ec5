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
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {0, 9}, {2, 9}, {3, 5}}) {
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
