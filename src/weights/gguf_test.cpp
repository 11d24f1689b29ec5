#include <cmath>
#include <nlohmann/json.hpp>

#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

using std::string;

string text(const string& s) { return little(s.size(), 8) + s; }

// A header with one tensor, each field to be bent by a test.
struct Gguf {
  string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensors = 1, values = 0;
  string metadata, name = text("t");
  uint32_t rank = 2;
  std::vector<uint64_t> sizes = {4, 2};
  uint32_t type = 0;
  uint64_t offset = 0;
  size_t data = 32;
  string bytes() const {
    string out =
        magic + little(version, 4) + little(tensors, 8) + little(values, 8) + metadata + name + little(rank, 4);
    for (uint64_t s : sizes) out += little(s, 8);
    out += little(type, 4) + little(offset, 8);
    out.resize((out.size() + 31) / 32 * 32);
    return out + string(data, 'd');
  }
};

class GgufFile : public testing::Test {
 protected:
  string refused(const Gguf& g) {
    const auto path = scratch.write("x.gguf", g.bytes());
    return refusal([&] { Checkpoint::open(path); });
  }
  Scratch scratch;
};

TEST_F(GgufFile, ReadsSizesInnermostFirst) {
  const auto c = Checkpoint::open(scratch.write("x", Gguf{}.bytes()));
  ASSERT_NE(c.find("t"), nullptr);
  EXPECT_EQ(c.find("t")->shape, (Shape{2, 4}));
  EXPECT_EQ(c.find("t")->bytes, 32u);
}

TEST_F(GgufFile, RefusesHeadersThatLie) {
  const uint64_t big = uint64_t{1} << 30;
  const auto expect = [&](const Gguf& g, const string& part) {
    const string got = refused(g);
    EXPECT_NE(got.find(part), string::npos) << part << "\n got: " << got;
  };
  expect({.rank = 4, .sizes = {4, big - 1, big + 1, 1}}, "\"t\" is [1,1073741825,1073741823,4] f32: the file has only");
  expect({.sizes = {(uint64_t{1} << 63) - 1, 2}}, "\"t\" has sizes whose product");
  expect({.rank = 5, .sizes = {1, 1, 1, 1, 1}}, "\"t\" has 5 dimensions");
  expect({.rank = 1000000, .sizes = {}}, "\"t\" has 1000000 dimensions");
  expect({.tensors = uint64_t{1} << 60}, "tensors are announced");
  expect({.values = uint64_t{1} << 60}, "values are announced");
  expect({.name = little(uint64_t{1} << 40, 8)}, "bytes are wanted");
  expect({.offset = 16}, "not a multiple of 32");
  expect({.offset = 32}, "is cut off");
  expect({.offset = ~uint64_t{31}}, "is cut off");
  expect({.data = 31}, "is cut off");
  expect({.type = 20}, "is of type 20, which danqing does not read");
  expect({.sizes = {4, 8}, .type = 8, .data = 34}, "rows of that type are multiples of 32");
  expect({.version = 1}, "GGUF version 1");
  expect({.version = 0x03000000}, "big-endian");
  for (const auto& [value, part] : {std::pair{0, "is 0, not a power of two"}, {3, "is 3, not a power of two"}})
    expect({.values = 1, .metadata = text("general.alignment") + little(4, 4) + little(value, 4)}, part);
  expect({.values = 1, .metadata = text("general.alignment") + little(10, 4) + little(32, 8)}, "is of type 10");
  expect({.values = 1, .metadata = text("k") + little(9, 4) + little(8, 4) + little(uint64_t{1} << 40, 8)},
         "longer than the file");
  string nested = text("k") + little(9, 4);
  for (int i = 0; i < 20; ++i) nested += little(9, 4) + little(1, 8);
  expect({.values = 1, .metadata = nested}, "nested deeper");
  expect({.values = 1, .metadata = text("k") + little(13, 4)}, "unknown metadata type 13");
}

TEST_F(GgufFile, RefusesOverlapAndDuplicates) {
  const auto two = [&](const string& second, uint64_t offset) {
    Gguf g{.tensors = 2, .data = 64};
    g.name = text("t") + little(1, 4) + little(8, 8) + little(0, 4) + little(0, 8) + text(second);
    g.offset = offset;
    return refused(g);
  };
  EXPECT_EQ(two("u", 32), "");
  EXPECT_NE(two("t", 32).find("duplicate tensor \"t\""), string::npos);
  EXPECT_NE(two("u", 0).find("overlaps with"), string::npos);
}

TEST_F(GgufFile, TakesTheShapeThatAConverterKept) {
  const string key = text("comfy.gguf.orig_shape.t");
  const string shape = little(9, 4) + little(5, 4) + little(3, 8);
  const auto c = Checkpoint::open(scratch.write(
      "x", Gguf{.values = 1, .metadata = key + shape + little(2, 4) + little(2, 4) + little(2, 4)}.bytes()));
  EXPECT_EQ(c.find("t")->shape, (Shape{2, 2, 2}));
  EXPECT_NE(refused({.values = 1, .metadata = key + shape + little(2, 4) + little(2, 4) + little(3, 4)})
                .find("its kept shape is [2,2,3]"),
            string::npos);
}

std::vector<float> floats(const Checkpoint& c, const TensorInfo& t) {
  std::vector<std::byte> raw(t.bytes);
  c.read(t, raw);
  std::vector<float> out(static_cast<size_t>(t.shape.count()));
  to_f32(t.dtype, raw, out);
  return out;
}

// Every tensor of the twin (under `prefix`) within one rounding of the decoded one.
void compare(const string& file, const string& twin, const string& prefix, size_t least) {
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file;
  const auto got = Checkpoint::open(file), want = Checkpoint::open(twin);
  size_t compared = 0;
  for (const TensorInfo& w : want.tensors()) {
    if (!w.name.starts_with(prefix)) continue;
    const TensorInfo* g = got.find(w.name.substr(prefix.size()));
    ASSERT_NE(g, nullptr) << w.name;
    EXPECT_EQ(g->shape, w.shape) << w.name;
    const auto a = floats(got, *g), b = floats(want, w);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6 * std::abs(b[i]) + 1e-9) << w.name << " " << i;
    ++compared;
  }
  EXPECT_GE(compared, least);
}

TEST_F(GgufFile, DecodesEveryTypeAsTheReference) {
  compare(DANQING_GOLDEN "/pipeline/zimage/formats/types.gguf",
          DANQING_GOLDEN "/pipeline/zimage/formats/types.safetensors", "", 13);
}

TEST_F(GgufFile, DecodesTheZImageTransformer) {
  compare(DANQING_GOLDEN "/pipeline/zimage/formats/transformer.gguf",
          DANQING_GOLDEN "/pipeline/zimage/formats/transformer_gguf.safetensors", "weight/", 5);
}

TEST_F(GgufFile, DecodesTheUnet) {
  compare(DANQING_GOLDEN "/pipeline/sd15/formats/unet.gguf",
          DANQING_GOLDEN "/pipeline/sd15/formats/unet_gguf.safetensors", "weight/", 10);
}

TEST_F(GgufFile, ReadsMetadata) {
  const string path = DANQING_GOLDEN "/pipeline/zimage/formats/types.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path;
  const auto c = Checkpoint::open(path);
  EXPECT_EQ(c.metadata().at("test.string"), "naïve 猫");
  EXPECT_EQ(c.metadata().at("test.uint32"), "7");
  EXPECT_EQ(c.metadata().at("test.array"), "[1.5,2.5]");
  EXPECT_EQ(c.metadata().at("test.bool"), "true");
}

}  // namespace
}  // namespace danqing
