#include "weights/convert.h"

#include <bit>
#include <cmath>
#include <random>

#include "weights/checkpoint.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}
template <class T>
std::span<std::byte> room(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST(Convert, EveryHalfAndEveryBfloatBothWays) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(65536);
  for (DType t : {DType::f16, DType::bf16}) {
    to_f32(t, bytes(all), wide);
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_TRUE(same(wide[i], t == DType::f16 ? f16_to_f32(all[i]) : bf16_to_f32(all[i]))) << i;
    from_f32(wide, t, room(back));
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(wide[i])) continue;
      ASSERT_EQ(back[i], all[i]);
    }
  }
}

TEST(Convert, RoundsAsTheSingleValueConversion) {
  std::mt19937 random(7);
  std::vector<float> values = {0.f,      -0.f,     65504.f,    65519.96f,    65520.f,      -1e9f,    INFINITY, NAN,
                               0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1.ffcp-15f, 0x1.ffep-15f, 0x1p-14f, 0x1p-140f};
  while (values.size() < 200001) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  while (values.size() < 300001)
    values.push_back(std::ldexp(static_cast<float>(random()), -32 - static_cast<int>(random() % 40)));
  std::vector<uint16_t> half(values.size()), bfloat(values.size());
  from_f32(values, DType::f16, room(half));
  from_f32(values, DType::bf16, room(bfloat));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(half[i], f32_to_f16(values[i])) << values[i];
    ASSERT_EQ(bfloat[i], f32_to_bf16(values[i])) << values[i];
  }
}

TEST(Convert, Float8CodesAreThoseOfTheReference) {
  const std::string path = DANQING_GOLDEN "/pipeline/sd15/formats/fp8_codes.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path;
  const auto c = Checkpoint::open(path);
  std::vector<uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  for (const auto& [name, type] : {std::pair{"e4m3fn", DType::f8_e4m3}, {"e5m2", DType::f8_e5m2}}) {
    std::vector<float> want(256), got(256);
    c.read(*c.find(name), room(want));
    to_f32(type, bytes(codes), got);
    for (int i = 0; i < 256; ++i) EXPECT_TRUE(same(got[i], want[i])) << name << " " << i;
  }
}

TEST(Convert, DecodesAFloat8Unet) {
  const std::string folder = DANQING_GOLDEN "/pipeline/sd15/formats/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder;
  const auto file = Checkpoint::open(folder + "fp8.safetensors"),
             twin = Checkpoint::open(folder + "unet_fp8.safetensors");
  int compared = 0;
  for (const TensorInfo& w : twin.tensors()) {
    if (!w.name.starts_with("weight/")) continue;
    const TensorInfo* t = file.find("model.diffusion_model." + w.name.substr(7));
    ASSERT_NE(t, nullptr) << w.name;
    std::vector<std::byte> raw(t->bytes);
    file.read(*t, raw);
    std::vector<float> got(static_cast<size_t>(t->shape.count())), want(got.size());
    to_f32(t->dtype, raw, got);
    twin.read(w, room(want));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same(got[i], want[i])) << w.name;
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

TEST(Convert, WholeNumbersConvertByValue) {
  std::vector<float> got(2);
  to_f32(DType::i64, bytes(std::vector<int64_t>{-3, 1 << 20}), got);
  EXPECT_EQ(got, (std::vector<float>{-3, 1 << 20}));
  to_f32(DType::boolean, bytes(std::vector<uint8_t>{0, 2}), got);
  EXPECT_EQ(got, (std::vector<float>{0, 1}));
}

TEST(Convert, GoesThroughChunksOfOddLength) {
  std::vector<uint16_t> half(10001), bfloat(10001);
  for (size_t i = 0; i < half.size(); ++i) half[i] = f32_to_f16(static_cast<float>(i % 2000) / 8);
  convert(DType::f16, bytes(half), DType::bf16, room(bfloat), 10001);
  for (size_t i = 0; i < half.size(); ++i) ASSERT_EQ(bfloat[i], f32_to_bf16(f16_to_f32(half[i])));
  EXPECT_THROW(from_f32(std::vector<float>(32), DType::q5_1, room(half)), Error);
}

std::vector<float> normal(size_t n, float mean = 0) {
  std::mt19937 random(3);
  std::normal_distribution<float> draw(mean);
  std::vector<float> out(n);
  for (float& v : out) v = draw(random);
  return out;
}

float relative_error(const std::vector<float>& x, DType t) {
  std::vector<std::byte> raw(static_cast<size_t>(bytes_of(t, static_cast<int64_t>(x.size()))));
  from_f32(x, t, raw);
  std::vector<float> back(x.size());
  to_f32(t, raw, back);
  double wrong = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += std::pow(x[i] - back[i], 2), all += x[i] * x[i];
  return static_cast<float>(std::sqrt(wrong / all));
}

// Bounds a few per cent above what these encoders reach: a worse search of the scales shows.
TEST(Quantise, KeepsNormalValues) {
  const auto x = normal(256 * 64);
  EXPECT_LT(relative_error(x, DType::q8_0), 0.0060f);
  EXPECT_LT(relative_error(x, DType::q6_k), 0.0180f);
  EXPECT_LT(relative_error(x, DType::q5_k), 0.0370f);
  EXPECT_LT(relative_error(x, DType::q4_k), 0.0760f);
  EXPECT_LT(relative_error(x, DType::q4_0), 0.0950f);
  const auto shifted = normal(256 * 64, 4.f);  // all of one sign: the minimum must not be used
  EXPECT_LT(relative_error(shifted, DType::q4_k), 0.05f);
  EXPECT_LT(relative_error(shifted, DType::q6_k), 0.02f);
}

TEST(Quantise, KeepsZerosAndSurvivesInfinities) {
  for (DType t : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
    std::vector<std::byte> raw(static_cast<size_t>(bytes_of(t, 256)));
    std::vector<float> back(256, 7.f);
    from_f32(std::vector<float>(256, 0.f), t, raw);
    to_f32(t, raw, back);
    for (float v : back) ASSERT_EQ(v, 0) << name(t);
    from_f32(std::vector<float>(256, INFINITY), t, raw);
    from_f32(std::vector<float>(256, NAN), t, raw);
    from_f32(std::vector<float>(256, 1e30f), t, raw);
    EXPECT_LT(relative_error(std::vector<float>(256, 0.5f), t), 0.01f) << name(t);
  }
}

// The reference quantised these from the same values.
TEST(Quantise, EncodesQ8AndQ4AsTheReference) {
  const std::string file = DANQING_GOLDEN "/pipeline/sd15/formats/unet.gguf",
                    source = DANQING_GOLDEN "/pipeline/sd15/single.safetensors";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file;
  const auto quantised = Checkpoint::open(file), plain = Checkpoint::open(source);
  int compared = 0;
  for (const TensorInfo& t : quantised.tensors()) {
    if (t.dtype != DType::q8_0 && t.dtype != DType::q4_0) continue;
    const TensorInfo* s = plain.find("model.diffusion_model." + t.name);
    ASSERT_NE(s, nullptr) << t.name;
    std::vector<std::byte> want(t.bytes), raw(s->bytes), got(t.bytes);
    quantised.read(t, want);
    plain.read(*s, raw);
    convert(s->dtype, raw, t.dtype, got, t.shape.count());
    EXPECT_EQ(got, want) << t.name << " " << name(t.dtype);
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace danqing
