#include "image/image.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "image/sample_pictures.h"
#include "image/write.h"

namespace danqing {
namespace {

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "(no error)";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const sample::Picture& sample_named(const std::string& name) {
  for (const auto& p : sample::kPictures) {
    if (p.name == name) return p;
  }
  throw std::logic_error("no sample " + name);
}

std::vector<uint8_t> bytes_of(const std::string& name) {
  const auto file = sample_named(name).file;
  return {file.begin(), file.end()};
}

TEST(ReadImage, KindsReadAsPillowReadsThem) {
  for (const sample::Picture& p : sample::kPictures) {
    SCOPED_TRACE(p.name);
    const Image image = read_image(p.file, p.name);
    ASSERT_EQ(image.width, p.width);
    ASSERT_EQ(image.height, p.height);
    ASSERT_EQ(image.rgb.size(), p.rgb.size());
    for (size_t i = 0; i < p.rgb.size(); ++i) EXPECT_NEAR(image.rgb[i], p.rgb[i], 1) << i;
  }
}

TEST(ReadImage, OrientationTurnsTheRightWay) {  // red was left; EXIF 6 means: turn right, so red is on top
  const sample::Picture& p = sample_named("Rotated6");
  const Image image = read_image(p.file, p.name);
  EXPECT_EQ(image.width, 8);
  EXPECT_EQ(image.height, 16);
  EXPECT_GT(image.rgb[0], 200);
  EXPECT_LT(image.rgb[3 * 8 * 15], 50);
}

TEST(ReadImage, MaskTakesTransparentAsKeep) {
  const sample::Picture& p = sample_named("Rgba");  // its first pixel has alpha 0
  EXPECT_EQ(read_mask(p.file, p.name).value[0], 0);
  EXPECT_EQ(read_image(p.file, p.name).rgb[0], 255);
}

TEST(ReadImage, Golden) {
  const std::string cases = std::string(DANQING_GOLDEN) + "/pipeline/sd15/cases/";
  if (!std::filesystem::exists(cases)) GTEST_SKIP() << cases << " is not there";
  const Image image = read_image(cases + "img2img_input.png");
  EXPECT_EQ(image.width, 96);
  EXPECT_EQ(image.height, 128);
  EXPECT_EQ(crc32(0, image.rgb.data(), image.rgb.size()), 1878869023u);  // of Pillow's RGB
  const Mask mask = read_mask(cases + "inpaint_mask.png");
  int64_t sum = 0;
  for (int v : mask.value) sum += v;
  EXPECT_EQ(sum, 1009800);
}

TEST(ReadImage, OtherKindsAreNamed) {
  const std::vector<uint8_t> gif = {'G', 'I', 'F', '8', '7', 'a', 3, 0, 2, 0};
  EXPECT_TRUE(says(error_of([&] { read_image(gif, "cat.png"); }), "cat.png: this is a GIF"));
  EXPECT_TRUE(says(error_of([&] { read_image(std::vector<uint8_t>{}, "x"); }), "empty"));
  EXPECT_TRUE(says(error_of([] { read_image("/nonexistent/x.png"); }), "/nonexistent/x.png"));
  EXPECT_TRUE(says(error_of([] { read_image("/dev/zero"); }), "regular"));
  EXPECT_TRUE(says(error_of([] { read_image("/tmp"); }), "folder"));
}

TEST(ReadImage, TruncatedIsAnErrorAtEveryLength) {
  for (const char* name : {"Rgba", "Palette", "CmykJpeg", "WebpAlpha"}) {
    const sample::Picture& p = sample_named(name);
    for (size_t n = 0; n + 2 < p.file.size(); ++n) {
      const std::vector<uint8_t> part(p.file.begin(), p.file.begin() + n);
      EXPECT_THROW(read_image(part, name), Error) << name << " cut to " << n;
    }
  }
}

void set_png_size(std::vector<uint8_t>& file, uint32_t width, uint32_t height) {
  for (int i = 0; i < 4; ++i) {
    file[16 + i] = uint8_t(width >> (24 - 8 * i));
    file[20 + i] = uint8_t(height >> (24 - 8 * i));
  }
  const uint32_t crc = crc32(0, file.data() + 12, 17);
  for (int i = 0; i < 4; ++i) file[29 + i] = uint8_t(crc >> (24 - 8 * i));
}

TEST(ReadImage, HostileSizesAreRefusedByTheHeader) {
  std::vector<uint8_t> file = bytes_of("Grey8");
  set_png_size(file, 60000, 60000);
  EXPECT_TRUE(says(error_of([&] { read_image(file, "big"); }), "60000 x 60000 pixels, the limit is"));
  set_png_size(file, 8192, 8192);
  EXPECT_TRUE(says(error_of([&] { read_image(file, "bomb"); }), "more than a file of its length can hold"));
  set_png_size(file, 0, 5);
  EXPECT_THROW(read_image(file, "none"), Error);

  std::vector<uint8_t> jpeg = bytes_of("CmykJpeg");
  for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) {
      jpeg[i + 5] = jpeg[i + 7] = 0x1F;  // 0x1F08 = 7944
      break;
    }
  }
  EXPECT_TRUE(says(error_of([&] { read_image(jpeg, "bomb.jpg"); }), "more than a file of its length can hold"));
}

}  // namespace
}  // namespace danqing
