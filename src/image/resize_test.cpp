#include "image/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace danqing {
namespace {

Mask pattern() {  // [5, 7]: (53 y + 37 x) * 7 mod 256
  Mask mask{7, 5, {}};
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x) mask.value.push_back(uint8_t((53 * y + 37 * x) * 7));
  }
  return mask;
}

void expect_near(const std::vector<uint8_t>& actual, const std::vector<int>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1) << i;
}

TEST(Resize, LanczosAsPillow) {  // the numbers are Pillow 13's
  expect_near(resize_lanczos(pattern(), 3, 2).value, {99, 106, 113, 174, 181, 188});
  expect_near(resize_lanczos(pattern(), 7, 3).value,
              {51, 54, 57, 60, 63, 66, 69, 177, 180, 183, 186, 189, 192, 195, 153, 156, 159, 162, 165, 168, 171});
  expect_near(resize_lanczos(pattern(), 11, 9).value,
              {0,   0,   0,   0,   0,   0,   1,   3,   5,   7,   8,   21,  22,  24,  26,  28,  30,  32,  34,  36,
               38,  39,  94,  95,  97,  99,  101, 103, 105, 107, 109, 111, 112, 201, 202, 204, 206, 208, 210, 212,
               214, 216, 218, 219, 230, 231, 233, 235, 237, 239, 241, 243, 245, 247, 248, 144, 145, 147, 149, 151,
               153, 155, 157, 159, 161, 162, 91,  92,  94,  96,  98,  100, 102, 104, 106, 108, 109, 161, 162, 164,
               166, 168, 170, 172, 174, 176, 178, 179, 223, 224, 226, 228, 230, 232, 234, 236, 238, 240, 241});
}

TEST(Resize, ChannelsStayApart) {
  Image image{4, 3, {}};
  for (int i = 0; i < 12; ++i) image.rgb.insert(image.rgb.end(), {10, 100, 200});
  for (const Image& r : {resize_lanczos(image, 9, 2), resize_nearest(image, 3, 7)}) {
    ASSERT_EQ(r.rgb.size(), size_t(3 * r.width * r.height));
    for (size_t i = 0; i < r.rgb.size(); i += 3) {
      EXPECT_EQ(r.rgb[i], 10);
      EXPECT_EQ(r.rgb[i + 1], 100);
      EXPECT_EQ(r.rgb[i + 2], 200);
    }
  }
}

TEST(Resize, NearestAsTorch) {  // torch.nn.functional.interpolate(size=(3, 4), mode="nearest")
  EXPECT_EQ(resize_nearest(pattern(), 4, 3).value,
            (std::vector<uint8_t>{0, 3, 9, 15, 115, 118, 124, 130, 89, 92, 98, 104}));
}

TEST(Signed, EveryLevelComesBack) {
  Image image{256, 1, {}};
  for (int v = 0; v < 256; ++v) image.rgb.insert(image.rgb.end(), {uint8_t(v), uint8_t(255 - v), 128});
  const std::vector<float> pixels = to_signed(image);
  EXPECT_EQ(pixels[0], -1.f);
  EXPECT_EQ(pixels[1], 1.f);
  EXPECT_EQ(from_signed(pixels, 256, 1).rgb, image.rgb);
}

TEST(Signed, RoundsHalvesToEvenAndClamps) {
  // (2 k + 1) / 255 - 1 is k + 0.5 levels; 0 is 127.5 exactly.
  const std::vector<float> pixels = {0.f, -2.f, 7.f, 2 * (0.5f / 255) - 1, -std::numeric_limits<float>::infinity(),
                                     1.f};
  EXPECT_EQ(from_signed(pixels, 2, 1).rgb, (std::vector<uint8_t>{128, 0, 255, 0, 0, 255}));
}

TEST(Signed, NotANumberIsAnError) {
  const std::vector<float> pixels = {0.f, NAN, 0.f};
  try {
    from_signed(pixels, 1, 1);
    FAIL() << "NaN passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::numeric);
    EXPECT_NE(std::string(e.what()).find("1 of 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace danqing
