#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/units.h"

namespace danqing {
namespace {

TEST(Units, PrintForPeople) {
  EXPECT_EQ(to_string(Bytes(17)), "17 B");
  EXPECT_EQ(to_string(Bytes(512 * kMiB)), "512 MiB");
  EXPECT_EQ(to_string(Bytes(kGiB * 32 / 10)), "3.20 GiB");
  EXPECT_EQ(to_string(Flops(803.3e9)), "803 GFLOP");
  EXPECT_EQ(to_string(Seconds(0.0000005)), "0 us");
  EXPECT_EQ(to_string(Seconds(0.83)), "830 ms");
  EXPECT_EQ(to_string(Seconds(12.4)), "12.4 s");
  EXPECT_EQ(to_string(Seconds(200)), "3 min 20 s");
  EXPECT_EQ(to_string(Seconds(7500)), "2 h 05 min");
}

TEST(Units, ReadSizes) {
  EXPECT_EQ(parse_bytes("8GiB", "--memory").value, 8 * kGiB);
  EXPECT_EQ(parse_bytes("8 gb", "--memory").value, 8 * kGiB);
  EXPECT_EQ(parse_bytes("1.5g", "--memory").value, kGiB * 3 / 2);
  EXPECT_EQ(parse_bytes("512M", "--memory").value, 512 * kMiB);
  EXPECT_EQ(parse_bytes("1048576", "--memory").value, kMiB);
  for (const char* bad : {"", "x", "-1", "0", "0.5", "1e30", "8 zb", "8gibs", "nan", "inf", "99999999999G", "1,5g"})
    EXPECT_THROW(parse_bytes(bad, "--memory"), Error) << bad;
}

TEST(Types, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto half = static_cast<uint16_t>(h);
    const float f = f16_to_f32(half), b = bf16_to_f32(half);
    EXPECT_TRUE(std::isnan(f) ? std::isnan(f16_to_f32(f32_to_f16(f))) : f32_to_f16(f) == half) << h;
    EXPECT_TRUE(std::isnan(b) ? std::isnan(bf16_to_f32(f32_to_bf16(b))) : f32_to_bf16(b) == half) << h;
  }
}

TEST(Types, RoundToNearestEven) {
  EXPECT_EQ(f32_to_f16(65519.f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.f), 0x7c00);
  EXPECT_EQ(f32_to_f16(1 + 0x1p-11f), 0x3c00);           // a tie goes to the even one
  EXPECT_EQ(f32_to_f16(1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);
  EXPECT_EQ(f32_to_f16(0x1.8p-25f), 1);
  EXPECT_EQ(f32_to_bf16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);
}

TEST(Types, Float8AsTheFieldReads) {
  EXPECT_EQ(f8_e4m3_to_f32(0x7E), 448.f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7F)));
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0.015625f);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0.001953125f);
  EXPECT_EQ(f8_e5m2_to_f32(0x7B), 57344.f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_f32(0x7C)));
}

TEST(Types, BlocksHaveTheirSizes) {
  EXPECT_EQ(bytes_of(DType::q4_k, 512), 288);
  EXPECT_EQ(bytes_of(DType::bf16, 3), 6);
  EXPECT_THROW(bytes_of(DType::q8_0, 33), Bug);
  EXPECT_EQ(dtype_named("q6_k"), DType::q6_k);
  EXPECT_EQ(dtype_named("q6"), std::nullopt);
}

TEST(Shape, CountsAndPrints) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s.rows(), 6);
  EXPECT_EQ(s.back(), 4);
  EXPECT_EQ(to_string(s), "[2,3,4]");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), Bug);
}

}  // namespace
}  // namespace danqing
