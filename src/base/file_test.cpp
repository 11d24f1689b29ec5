#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace danqing {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "danqing-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string refusal(const std::filesystem::path& path) {
    try {
      File::open(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::file);
      return e.what();
    }
    return "";
  }
  std::filesystem::path folder;
};

TEST_F(FileTest, ReadsByPositionAndWhole) {
  std::ofstream(folder / "a 猫") << "0123456789";
  File file = File::open(folder / "a 猫");
  const File moved = std::move(file);
  EXPECT_EQ(moved.size(), 10u);
  std::string whole(10, ' ');
  moved.read_at(0, std::as_writable_bytes(std::span(whole)));
  EXPECT_EQ(whole, "0123456789");
  char got[4] = {};
  moved.read_at(6, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(std::string(got, 4), "6789");
  EXPECT_THROW(moved.read_at(7, std::as_writable_bytes(std::span(got))), Error);
  EXPECT_EQ(read_text(folder / "a 猫", 10), "0123456789");
  EXPECT_THROW(read_text(folder / "a 猫", 9), Error);
}

TEST_F(FileTest, OpensAnEmptyFile) {
  std::ofstream(folder / "empty") << "";
  EXPECT_EQ(File::open(folder / "empty").size(), 0u);
}

TEST_F(FileTest, SaysWhyAPathIsNoFile) {
  std::filesystem::create_symlink("gone", folder / "link");
  EXPECT_NE(refusal(folder).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal(folder / "link").find("is a link to gone, which does not exist"), std::string::npos);
  EXPECT_NE(refusal(folder / "missing").find("no such file"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace danqing
