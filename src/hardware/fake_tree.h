// A folder that stands for /proc and /sys in tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "hardware/text_file.h"

namespace danqing {

class FakeTree {
 public:
  FakeTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "danqing-hardware-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~FakeTree() { std::filesystem::remove_all(root_); }
  FakeTree(const FakeTree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  Roots roots() const { return {path("proc"), path("sys")}; }

 private:
  std::filesystem::path root_;
};

}  // namespace danqing
