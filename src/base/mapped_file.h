// Read-only files. File reads by position (the file may be replaced or shortened meanwhile: an Error, never a signal);
// MappedFile maps a small file that is ours, such as a vocabulary. Paths are UTF-8. Every failure is
// Error(Fault::file).
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

class MappedFile {
 public:
  static MappedFile open(const std::filesystem::path& path);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  uint64_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  void read_at(uint64_t offset, std::span<std::byte> out) const { file_.read_at(offset, out); }

 private:
  explicit MappedFile(File file);
  File file_;
  std::span<const std::byte> bytes_;
};

// The whole file as text; more than `most` bytes is an Error.
std::string read_text(const std::filesystem::path& path, uint64_t most);

}  // namespace danqing
