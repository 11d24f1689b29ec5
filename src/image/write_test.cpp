#include "image/write.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "image/exif.h"

namespace danqing {
namespace {

namespace fs = std::filesystem;

Image gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int v : {x * 255 / width, y * 255 / height, (x + y) * 127 / (width + height)})
        image.rgb.push_back(uint8_t(v));
    }
  }
  return image;
}

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "danqing-image-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() override { fs::remove_all(path_); }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(path_)) out.insert(entry.path().filename().string());
    return out;
  }
  void touch(const std::string& name) const { std::ofstream(at(name)) << "x"; }
  fs::path path_;
};
using WriteImage = Folder;
using Numbering = Folder;

TEST_F(WriteImage, PixelsComeBack) {
  const Image image = gradient(37, 22);
  for (const auto& [name, quality, allowed] : {std::tuple("a.png", 95, 0), std::tuple("b.webp", 100, 0),
                                               std::tuple("c.JPEG", 95, 12), std::tuple("d.webp", 95, 24)}) {
    SCOPED_TRACE(name);
    write_image(at(name), image, {"p", "{}"}, {quality});
    const Image back = read_image(at(name));
    ASSERT_EQ(back.width, 37);
    ASSERT_EQ(back.rgb.size(), image.rgb.size());
    for (size_t i = 0; i < image.rgb.size(); ++i) ASSERT_NEAR(back.rgb[i], image.rgb[i], allowed) << i;
  }
}

std::vector<std::string> odd_prompts() {
  std::string longest;
  while (longest.size() < 100 * 1024) longest += "猫 cat, ";
  return {"a cat",
          "caf\xc3\xa9 \xc3\xbf",
          "テスト、桜",
          "一一一",  // its UTF-16 has more zero bytes at odd places
          "👍🏽 thumbs",
          "three\nlines  \r\nand a trailing one \n\n",
          "quotes \"x\", Negative prompt: y\nSteps: 5, Sampler: z </x:xmpmeta> &amp;",
          std::string(100 * 1024, 'x'),
          longest};
}

TEST(Metadata, OddPromptsComeBackExactly) {
  const Image image = gradient(8, 8);
  for (const char* ending : {"png", "jpg", "webp"}) {
    for (const std::string& prompt : odd_prompts()) {
      SCOPED_TRACE(std::string(ending) + " " + prompt.substr(0, 30));
      for (const Metadata& m : {Metadata{prompt, "{\"prompt\":\"" + prompt.substr(0, 9) + "\"}"}, Metadata{prompt, ""},
                                Metadata{"", prompt}}) {
        EXPECT_TRUE(read_metadata(encode_image(ending, image, m), "x") == m);
      }
    }
    EXPECT_EQ(read_metadata(encode_image(ending, image), "x"), Metadata{});
  }
}

TEST(Metadata, WhatCannotStandInATextIsReplaced) {
  const std::string hostile("a\0b\xff\xed\xa0\x80z", 8);
  for (const char* ending : {"png", "jpg", "webp"}) {
    const Metadata back = read_metadata(encode_image(ending, gradient(8, 8), {hostile, ""}), "x");
    EXPECT_EQ(back.parameters, "a\ufffdb\ufffd\ufffd\ufffd\ufffdz") << ending;
  }
}

TEST(Metadata, PngUsesTheChunkThatFitsTheText) {
  auto has = [](const std::string& prompt, const char* chunk) {
    const auto bytes = encode_image("png", gradient(8, 8), {prompt, ""});
    const std::string text(bytes.begin(), bytes.end());
    return text.find(std::string(chunk) + "parameters") != std::string::npos;
  };
  EXPECT_TRUE(has("caf\xc3\xa9", "tEXt"));
  EXPECT_TRUE(has("テスト", "iTXt"));
}

TEST(Metadata, ExifIsWhatPiexifReads) {
  const std::string exif = exif::make({"é", ""});
  EXPECT_EQ(exif, std::string("MM\0*\0\0\0\x08"
                              "\0\x01\x87\x69\0\x04\0\0\0\x01\0\0\0\x1a\0\0\0\0"
                              "\0\x01\x92\x86\0\x07\0\0\0\x0a\0\0\0\x2c\0\0\0\0"
                              "UNICODE\0\0\xe9",
                              54));
}

TEST(Metadata, LittleEndianExifOfOthers) {
  const std::string exif(
      "Exif\0\0II*\0\x08\0\0\0"
      "\x01\0\x69\x87\x04\0\x01\0\0\0\x1a\0\0\0\0\0\0\0"
      "\x01\0\x86\x92\x07\0\x0c\0\0\0\x2c\0\0\0\0\0\0\0"
      "UNICODE\0h\0i\0",
      62);
  const std::vector<uint8_t> bytes(exif.begin(), exif.end());
  EXPECT_EQ(exif::metadata(bytes).parameters, "hi");
  for (size_t n = 0; n < bytes.size(); ++n) exif::metadata(std::span(bytes).first(n));  // never reads beyond
}

TEST(Metadata, ExifDirectoryThatPointsAnywhere) {
  std::string text = exif::make({"abc", "{\"a\":1}"});
  std::vector<uint8_t> bytes(text.begin(), text.end());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (uint8_t v : {0x00, 0x7f, 0xff}) {
      auto broken = bytes;
      broken[i] = v;
      exif::metadata(broken);
      EXPECT_EQ(exif::orientation(broken), 1);
    }
  }
}

TEST(Ending, Checked) {
  for (const char* good : {"a.png", "b.JPG", "c.jpeg", "d.x.WebP"}) EXPECT_NO_THROW(check_picture_ending(good));
  for (const char* bad : {"out", "out.", "a.gif", "png", ".png", "folder.png/x"}) {
    EXPECT_THROW(check_picture_ending(bad), Error) << bad;
  }
}

TEST_F(WriteImage, NeverReplacesUnlessAsked) {
  write_image(at("a.png"), gradient(8, 8));
  EXPECT_THROW(write_image(at("a.png"), gradient(9, 9)), Error);
  EXPECT_EQ(read_image(at("a.png")).width, 8);
  write_image(at("a.png"), gradient(9, 9), {}, {}, Existing::replace);
  EXPECT_EQ(read_image(at("a.png")).width, 9);
  EXPECT_EQ(names(), std::set<std::string>{"a.png"});
}

TEST_F(WriteImage, FullDiskLeavesNothing) {
  std::vector<uint8_t> bytes(1 << 20);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{}, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    write_file(at("a.png"), bytes);
  } catch (const Error& e) {
    text = e.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old);
  EXPECT_NE(text.find("a.png: cannot be written: File too large"), std::string::npos) << text;
  EXPECT_TRUE(names().empty());
}

TEST_F(WriteImage, FolderMissing) { EXPECT_THROW(write_image(at("no/such/a.png"), gradient(8, 8)), Error); }

TEST_F(WriteImage, TooLargeForTheFormat) {
  EXPECT_THROW(encode_image("webp", Image{16384, 1, std::vector<uint8_t>(16384 * 3)}), Error);
  EXPECT_THROW(encode_image("jpg", Image{65501, 1, std::vector<uint8_t>(65501 * 3)}), Error);
  EXPECT_THROW(encode_image("png", gradient(2, 2), {}, {0}), Error);
}

TEST_F(Numbering, HighestPlusOne) {
  EXPECT_EQ(next_free_name(at("absent"), "cat", "png"), "cat-0001.png");
  touch("cat-0001.png");
  touch("cat-0003.jpg");
  for (const char* other : {"cat-.png", "cat-0009", "cat-7x.png", "dog-0050.png", "cat2-0060.png", "cat--5.png",
                            "cat-99999999999999999999.png"}) {
    touch(other);
  }
  EXPECT_EQ(next_free_name(path_.string(), "cat", "png"), "cat-0004.png");
  touch("cat-12345.webp");
  EXPECT_EQ(next_free_name(path_.string(), "cat", "png"), "cat-12346.png");
}

TEST_F(Numbering, TwoProcessesNeverShareANumber) {
  constexpr int kEach = 20;
  const Image image = gradient(8, 8);
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int k = 0; k < kEach; ++k) write_numbered(path_.string(), "x", "png", image);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(names().size(), size_t{2 * kEach});
  EXPECT_TRUE(names().count("x-0040.png"));
}

TEST(SafeStem, Names) {
  EXPECT_EQ(safe_stem("a cat, sitting"), "a_cat_sitting");
  EXPECT_EQ(safe_stem("../../etc/passwd"), "etc_passwd");
  EXPECT_EQ(safe_stem("--help"), "help");
  EXPECT_EQ(safe_stem("CON"), "CON_");
  EXPECT_EQ(safe_stem("com1"), "com1_");
  EXPECT_EQ(safe_stem(" ./\\:*?\"<>|\n\t"), "picture");
  EXPECT_EQ(safe_stem(""), "picture");
  EXPECT_EQ(safe_stem("桜 👍"), "桜_👍");
  EXPECT_EQ(safe_stem(std::string("a\0b\xff", 4)), "a_b");
  EXPECT_EQ(safe_stem("a\u202Egnp.b"), "a_gnp_b");
  std::string cjk;
  for (int i = 0; i < 300; ++i) cjk += "桜";
  EXPECT_EQ(safe_stem(cjk).size(), 120u);
  EXPECT_EQ(safe_stem(cjk, 100).size(), 99u);  // whole characters
}

}  // namespace
}  // namespace danqing
