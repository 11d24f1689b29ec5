#include <gtest/gtest.h>

#include "graph/build.h"
#include "graph/fuse.h"

namespace danqing {
namespace {

TEST(Work, CountsTwoForAMultiplyAdd) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {2, 3, 8}});
  b.output("y", b.linear(x, "fc", 5));
  EXPECT_EQ(work_of(g).products.value, 2.0 * 2 * 3 * 8 * 5);
  EXPECT_EQ(work_of(g).written.value, 2 * 3 * 5 * 4);
  EXPECT_EQ(work_of(g).read.value, (2 * 3 * 8 + 8 * 5 + 5) * 4);
}

TEST(Work, ConvolutionAndAttention) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 8, 6, 4}});
  const Value y = b.conv(x, "down", 10, 3, 2);
  EXPECT_EQ(g[y].type.shape, (Shape{1, 4, 3, 10}));
  EXPECT_EQ(work_of(g, g[y]).products.value, 2.0 * 4 * 3 * 10 * 4 * 9);
  const Value q = b.input("q", {DType::f32, {2, 7, 16}}), k = b.input("k", {DType::f32, {1, 5, 16}});
  const Value a = b.attention(q, k, k, 4, 4);
  EXPECT_EQ(work_of(g, g[a]).products.value, 4.0 * 2 * 7 * 5 * 16);
  const Value up = b.upsample_conv(x, "up", 3);
  EXPECT_EQ(g[up].type.shape, (Shape{1, 16, 12, 3}));
}

TEST(Fuse, MergesProductsWithWhatFollows) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 4, 8}});
  const Value gate = b.unary(b.linear_rows(x, "proj", 16, 8, 16), Activation::gelu);
  const Value gated = b.mul(b.linear_rows(x, "proj", 16, 0, 8), gate);
  b.output("y", b.add(b.linear(gated, "out", 8), x));
  const Graph f = fuse(g);
  verify(f);
  int linears = 0;
  for (const Node& n : f.nodes) {
    EXPECT_FALSE(std::holds_alternative<Unary>(n.op) || std::holds_alternative<Add>(n.op) ||
                 std::holds_alternative<Mul>(n.op));
    linears += std::holds_alternative<Linear>(n.op);
  }
  EXPECT_EQ(linears, 3);
  EXPECT_EQ(f[f.outputs[0]].name, "y");
  EXPECT_EQ(std::get<Linear>(f[f.outputs[0]].op).combine, Combine::add);
  EXPECT_EQ(work_of(f).products.value, work_of(g).products.value);
}

TEST(Fuse, LeavesAValueWithTwoReadersAlone) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 4, 8}});
  const Value y = b.linear(x, "a", 8);
  b.output("y", b.add(b.silu(y), y));
  const Graph f = fuse(g);
  verify(f);
  EXPECT_EQ(f.size(), g.size());
}

TEST(Fuse, KeepsNamesOfOutputs) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 4, 4, 32}});
  const Value h = b.silu(b.group_norm(x, "norm", 32, 1e-5f));
  b.output("a", h);
  b.output("b", b.conv(h, "conv", 4, 3));
  const Graph f = fuse(g);
  verify(f);
  ASSERT_EQ(f.outputs.size(), 2u);
  EXPECT_EQ(f[f.outputs[0]].name, "a");
  EXPECT_TRUE(std::get<GroupNorm>(f[f.outputs[0]].op).silu);
}

TEST(Graph, PrintsALineANode) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 4, 4, 8}});
  b.output("y", b["block"].conv(x, "conv", 4, 3, 2));
  EXPECT_EQ(print(g),
            "%0 input  [1,4,4,8] f32  ()  x\n"
            "%1 weight block.conv.weight  [4,8,3,3] f32  ()  block.conv.weight\n"
            "%2 weight block.conv.bias  [4] f32  ()  block.conv.bias\n"
            "%3 conv2d stride 2 +bias  [1,2,2,4] f32  (%0, %1, %2)  y\n"
            "-> %3 y\n");
}

TEST(Graph, ShapesOfTokenOps) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {4, 6, 8}}), y = b.input("y", {DType::f32, {2, 3, 8}});
  EXPECT_EQ(b.shape(b.concat_rows({x, y})), (Shape{4, 9, 8}));
  EXPECT_THROW(b.concat_rows({y, x}), Bug);  // the first part says how many images there are
  EXPECT_EQ(b.rows(x, 0, 6), x);
  EXPECT_EQ(b.shape(b.unpatchify(x, 2, 4, 6)), (Shape{4, 4, 6, 2}));
  EXPECT_EQ(b.shape(b.patchify(b.unpatchify(x, 2, 4, 6), 2)), b.shape(x));
  EXPECT_THROW(b.unpatchify(x, 2, 4, 8), Bug);
  EXPECT_EQ(b.shape(b.repeat(x, {5, 4, 6, 8})), (Shape{5, 4, 6, 8}));
  EXPECT_THROW(b.repeat(x, {6, 8}), Bug);
  const Value rows = b.input("rows", {DType::f32, {2, 8}}), three = b.input("three", {DType::f32, {3, 8}});
  EXPECT_EQ(b.shape(b.modulate(x, rows)), b.shape(x));
  EXPECT_THROW(b.modulate(x, three), Bug);
  EXPECT_THROW(b.modulate_add(x, rows, y), Bug);
  const Value table = b.input("table", {DType::f32, {2, 6, 8}});
  EXPECT_EQ(b.shape(b.rope(x, table, true)), b.shape(x));
  EXPECT_THROW(b.rope(y, table, true), Bug);
  const Value lengths = b.input("lengths", {DType::i32, {2}});
  EXPECT_EQ(b.shape(b.attention(x, y, y, 2, 2, false, lengths)), b.shape(x));
  EXPECT_THROW(b.attention(x, x, x, 2, 2, false, lengths), Bug);
}

TEST(Graph, RefusesWhatDoesNotAgree) {
  Graph g;
  const Build b(g, {});
  const Value x = b.input("x", {DType::f32, {1, 4, 8}}), y = b.input("y", {DType::f32, {1, 4, 6}});
  EXPECT_THROW(b.add(x, y), Bug);
  EXPECT_THROW(b.attention(x, y, y, 2, 2), Bug);
}

}  // namespace
}  // namespace danqing
