// Field positions: PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16
// (ends), 4.5.3.
#include "weights/zip_directory.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "weights/byte_reader.h"
#include "weights/container.h"

namespace danqing {
namespace {

template <class T>
T field(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string bytes_at(const File& file, uint64_t at, uint64_t size) {
  std::string out(size, '\0');
  file.read_at(at, std::as_writable_bytes(std::span(out)));
  return out;
}

struct Place {
  uint64_t count, size, offset;  // of the central directory
};

Place find_directory(const File& file) {
  constexpr uint64_t kEnd = 22, kMaxComment = 65535, kLocator = 20, kEnd64 = 56;
  const uint64_t tail_size = std::min(file.size(), kEnd + kMaxComment);
  const std::string tail = bytes_at(file, file.size() - tail_size, tail_size);
  const size_t end = tail_size < kEnd ? std::string::npos : tail.rfind("PK\5\6", tail_size - kEnd);
  if (end == std::string::npos)
    fail_in(file,
            "is a zip archive without its directory: the file is cut off at " + std::to_string(file.size()) + " bytes");
  Place place{field<uint16_t>(tail, end + 10), field<uint32_t>(tail, end + 12), field<uint32_t>(tail, end + 16)};
  if (end >= kLocator && tail.compare(end - kLocator, 4, "PK\6\7") == 0) {
    const uint64_t at = field<uint64_t>(tail, end - kLocator + 8);
    if (file.size() < kEnd64 || at > file.size() - kEnd64)
      fail_in(file, "has a zip64 directory that begins past its end");
    const std::string end64 = bytes_at(file, at, kEnd64);
    if (!end64.starts_with("PK\6\6")) fail_in(file, "has a damaged zip64 directory");
    place = {field<uint64_t>(end64, 32), field<uint64_t>(end64, 40), field<uint64_t>(end64, 48)};
  }
  if (place.offset > file.size() || place.size > file.size() - place.offset || place.count > place.size / 46)
    fail_in(file, "has a zip directory that does not lie inside the file");
  return place;
}

// Sizes and position past 32 bits stand in the extra field, only those that the entry marks.
void apply_zip64(std::string_view extra, ZipMember& m) {
  while (extra.size() >= 4) {
    const size_t length = std::min<size_t>(field<uint16_t>(extra, 2), extra.size() - 4);
    std::string_view body = extra.substr(4, length);
    if (field<uint16_t>(extra, 0) == 1)
      for (uint64_t* value : {&m.size, &m.packed, &m.header})
        if (*value == 0xffffffff && body.size() >= 8) {
          *value = field<uint64_t>(body, 0);
          body.remove_prefix(8);
        }
    extra.remove_prefix(4 + length);
  }
}

}  // namespace

ZipDirectory::ZipDirectory(const File& file) : file_(file) {
  const Place place = find_directory(file);
  ByteReader in(file, place.offset, place.offset + place.size, "zip directory");
  for (uint64_t i = 0; i < place.count; ++i) {
    const std::string entry = in.take_text(46, 46);
    if (!entry.starts_with("PK\1\2")) in.fail("a damaged entry");
    ZipMember m{.header = field<uint32_t>(entry, 42),
                .size = field<uint32_t>(entry, 24),
                .packed = field<uint32_t>(entry, 20),
                .method = field<uint16_t>(entry, 10),
                .flags = field<uint16_t>(entry, 8)};
    std::string name = in.take_text(field<uint16_t>(entry, 28), 65535);
    apply_zip64(in.take_text(field<uint16_t>(entry, 30), 65535), m);
    in.skip(field<uint16_t>(entry, 32));
    if (!members_.emplace(name, m).second) in.fail("duplicate member " + in_quotes(name));
  }
}

FileRange ZipDirectory::locate(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) fail_in(file_, "the archive has no member " + in_quotes(name));
  const ZipMember& m = found->second;
  if (m.flags & 1) fail_in(file_, in_quotes(name) + " in the archive is encrypted");
  if (m.method != 0)
    fail_in(file_, in_quotes(name) + " in the archive is compressed (method " + std::to_string(m.method) +
                       "), only stored members are read: repack without compression");
  constexpr uint64_t kHeader = 30;
  if (m.header > file_.size() || file_.size() - m.header < kHeader)
    fail_in(file_, in_quotes(name) + " lies past the file's end");
  const std::string header = bytes_at(file_, m.header, kHeader);
  if (!header.starts_with("PK\3\4")) fail_in(file_, in_quotes(name) + " has a damaged header in the archive");
  const uint64_t begin = m.header + kHeader + field<uint16_t>(header, 26) + field<uint16_t>(header, 28);
  if (begin > file_.size() || m.size > file_.size() - begin)
    fail_in(file_, in_quotes(name) + " needs bytes up to " + std::to_string(begin) + " + " + std::to_string(m.size) +
                       ", the file has " + std::to_string(file_.size()));
  return {begin, m.size};
}

}  // namespace danqing
