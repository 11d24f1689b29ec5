#include "weights/writer.h"

#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

const std::vector<TensorOut> kTensors = {{"u", DType::u8, {3}},
                                         {"名前", DType::f32, {2, 2}},
                                         {"h", DType::f16, {1, 5}},
                                         {"none", DType::bf16, {0, 4}},
                                         {"one", DType::f64, {}}};

void pattern(size_t index, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(index * 31 + i);
}

void expect_same(const Checkpoint& c, const std::vector<TensorOut>& tensors) {
  ASSERT_EQ(c.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo* t = c.find(tensors[i].name);
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->dtype, tensors[i].dtype);
    EXPECT_EQ(t->shape, tensors[i].shape);
    std::vector<std::byte> got(t->bytes), want(t->bytes);
    c.read(*t, got);
    pattern(i, want);
    EXPECT_EQ(got, want) << t->name;
  }
}

size_t entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(Writer, WritesSafetensorsThatReadBack) {
  const Scratch scratch;
  const auto path = scratch.path() / (std::string(243, 'n') + ".safetensors");  // 255 bytes: as long as a name can be
  write_safetensors(path, kTensors, {{"format", "pt"}, {"quote", "\"\n猫"}}, pattern);
  const auto c = Checkpoint::open(path);
  expect_same(c, kTensors);
  EXPECT_EQ(c.metadata().at("quote"), "\"\n猫");
  for (const TensorInfo& t : c.tensors())
    EXPECT_EQ(t.offset % static_cast<uint64_t>(info(t.dtype).bytes), 0u) << t.name;
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(Writer, WritesGgufThatReadsBack) {
  const Scratch scratch;
  const std::vector<TensorOut> tensors = {
      {"q", DType::q4_k, {2, 256}}, {"a", DType::f32, {3}}, {"b", DType::q8_0, {3, 64}}, {"s", DType::f16, {}}};
  write_gguf(scratch.path() / "x", "sd1", tensors, {{"general.name", "tiny"}}, pattern);
  const auto c = Checkpoint::open(scratch.path() / "x");
  expect_same(c, tensors);
  EXPECT_EQ(c.metadata().at("general.architecture"), "sd1");
  EXPECT_EQ(c.metadata().at("general.name"), "tiny");
}

TEST(Writer, LeavesNothingBehindWhenItFails) {
  const Scratch scratch;
  const auto path = scratch.write("x", "old");
  const auto broken = [](size_t, std::span<std::byte>) { throw Error(Fault::cancelled, "stop"); };
  EXPECT_THROW(write_safetensors(path, kTensors, {}, broken), Error);
  EXPECT_EQ(read_text(path, 10), "old");
  EXPECT_EQ(entries(scratch.path()), 1u);
  EXPECT_NE(
      refusal([&] { write_safetensors(scratch.path() / "no" / "x", kTensors, {}, pattern); }).find("cannot be created"),
      std::string::npos);
  EXPECT_NE(refusal([&] { write_safetensors(scratch.path(), kTensors, {}, pattern); }), "");
}

TEST(Writer, RefusesWhatAFormatCannotHold) {
  const Scratch scratch;
  const auto path = scratch.path() / "x";
  EXPECT_THROW(write_safetensors(path, {{"q", DType::q8_0, {32}}}, {}, pattern), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}, {}, pattern), Error);
  EXPECT_THROW(write_safetensors(path, {{"\xff", DType::u8, {1}}}, {}, pattern), Error);
  EXPECT_THROW(write_gguf(path, "x", {{"f", DType::f8_e4m3, {32}}}, {}, pattern), Error);
  EXPECT_THROW(write_gguf(path, "x", {{"q", DType::q8_0, {2, 16}}}, {}, pattern), Error);
  EXPECT_EQ(entries(scratch.path()), 0u);
}

}  // namespace
}  // namespace danqing
