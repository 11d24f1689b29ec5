// Read-only files, read by position and never mapped: a file replaced or shortened meanwhile is an Error, not a signal.
// Paths are UTF-8. Every failure is Error(Fault::file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace danqing {

class File {
 public:
  // A regular file; a folder, a pipe, a dangling link or a missing file is refused with its own sentence.
  static File open(const std::filesystem::path& path);
  // Takes over a descriptor; `path` is what errors call it.
  static File adopt(int descriptor, const std::filesystem::path& path);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  uint64_t size() const { return size_; }  // when it was opened
  const std::filesystem::path& path() const { return path_; }
  std::string name() const;  // the last part of the path, for messages
  int descriptor() const { return descriptor_; }

  // Fills `out` with the bytes from `offset` on, in large blocks; fewer left in the file is an Error. Threads may share
  // a File.
  void read_at(uint64_t offset, std::span<std::byte> out) const;

 private:
  File(int descriptor, std::filesystem::path path);
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::filesystem::path path_;
};

// The whole file as text; more than `most` bytes is an Error.
std::string read_text(const std::filesystem::path& path, uint64_t most);

}  // namespace danqing
