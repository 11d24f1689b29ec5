// Reads a part of a file front to back through a small buffer: for headers whose length shows only as they are read.
// Every count is checked against what the part can still hold before anything is allocated.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/file.h"

namespace danqing {

class ByteReader {
 public:
  // Bytes begin..end of the file; `what` names the part in errors ("the header").
  ByteReader(const File& file, uint64_t begin, uint64_t end, std::string what);

  uint64_t position() const { return position_; }  // from the start of the file
  uint64_t left() const { return end_ - position_; }
  const File& file() const { return file_; }
  [[noreturn]] void fail(const std::string& why) const;

  template <class T>
  T take() {  // little-endian, as all these formats are
    static_assert(std::is_arithmetic_v<T>);
    T value;
    take_into(&value, sizeof value);
    return value;
  }
  std::string take_text(uint64_t length, uint64_t most);
  std::string take_line(uint64_t most);  // up to a newline, which is dropped
  void skip(uint64_t length);

 private:
  void need(uint64_t length) const;
  void take_into(void* out, size_t length);

  const File& file_;
  uint64_t position_, end_;
  std::string what_;
  std::vector<std::byte> buffer_;
  uint64_t buffer_at_ = 0;  // file position of the buffer's first byte
};

}  // namespace danqing
