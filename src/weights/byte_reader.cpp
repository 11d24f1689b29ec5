#include "weights/byte_reader.h"

#include <algorithm>

#include "base/error.h"
#include "weights/container.h"

namespace danqing {

ByteReader::ByteReader(const File& file, uint64_t begin, uint64_t end, std::string what)
    : file_(file), position_(begin), end_(end), what_(std::move(what)) {
  DANQING_CHECK(begin <= end && end <= file.size());
}

void ByteReader::fail(const std::string& why) const {
  fail_in(file_, what_ + ", byte " + std::to_string(position_) + ": " + why);
}

void ByteReader::need(uint64_t length) const {
  if (length > left())
    fail(std::to_string(length) + " bytes are wanted, " + std::to_string(left()) + " are left: cut off or damaged");
}

void ByteReader::take_into(void* out, size_t length) {
  constexpr uint64_t kBlock = 256u << 10;
  need(length);
  std::byte* to = static_cast<std::byte*>(out);
  while (length > 0) {
    if (position_ < buffer_at_ || position_ >= buffer_at_ + buffer_.size()) {
      buffer_.resize(std::min(kBlock, left()));
      buffer_at_ = position_;
      file_.read_at(position_, buffer_);
    }
    const size_t from = position_ - buffer_at_, n = std::min(length, buffer_.size() - from);
    std::memcpy(to, buffer_.data() + from, n);
    to += n, position_ += n, length -= n;
  }
}

std::string ByteReader::take_text(uint64_t length, uint64_t most) {
  need(length);
  if (length > most)
    fail("a text of " + std::to_string(length) + " bytes, at most " + std::to_string(most) + " are read");
  std::string text(length, '\0');
  take_into(text.data(), length);
  return text;
}

std::string ByteReader::take_line(uint64_t most) {
  std::string text;
  for (char c = take<char>(); c != '\n'; c = take<char>()) {
    if (text.size() == most) fail("a line of more than " + std::to_string(most) + " bytes");
    text += c;
  }
  return text;
}

void ByteReader::skip(uint64_t length) {
  need(length);
  position_ += length;
}

}  // namespace danqing
