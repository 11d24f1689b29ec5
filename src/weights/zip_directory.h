// The directory of a zip file: where each member's bytes lie. libzip reads members but does not say where a stored one
// begins, and tensors are read by position; so the directory (zip64 too) is taken apart here.
#pragma once

#include <map>
#include <string>

#include "base/file.h"
#include "weights/container.h"

namespace danqing {

struct ZipMember {
  uint64_t header = 0, size = 0, packed = 0;
  uint16_t method = 0, flags = 0;
};

class ZipDirectory {
 public:
  explicit ZipDirectory(const File& file);
  const std::map<std::string, ZipMember, std::less<>>& members() const { return members_; }
  // Where the member's bytes lie; a compressed or encrypted one, or one that leaves the file, is an Error.
  FileRange locate(const std::string& name) const;

 private:
  const File& file_;
  std::map<std::string, ZipMember, std::less<>> members_;
};

}  // namespace danqing
