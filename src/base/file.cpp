#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace danqing {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(Fault::file, path.string() + ": " + why);
}

std::string system_text(int code) { return std::strerror(code); }

}  // namespace

File::File(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}

File File::open(const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) throw Error(Fault::file, "a file name holds a NUL character");
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int code = errno;
    struct stat link {};
    if (code == ENOENT && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      std::error_code ignored;
      fail(path, "is a link to " + std::filesystem::read_symlink(path, ignored).string() + ", which does not exist");
    }
    fail(path, code == ENOENT ? "no such file" : "cannot be opened: " + system_text(code));
  }
  return adopt(descriptor, path);
}

File File::adopt(int descriptor, const std::filesystem::path& path) {
  File file(descriptor, path);
  struct stat state {};
  if (::fstat(descriptor, &state) != 0) fail(path, "cannot be examined: " + system_text(errno));
  if (S_ISDIR(state.st_mode)) fail(path, "is a folder, a file is wanted");
  if (!S_ISREG(state.st_mode)) fail(path, "is not a regular file");
  file.size_ = static_cast<uint64_t>(state.st_size);
  return file;
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string File::name() const { return path_.filename().string(); }

void File::read_at(uint64_t offset, std::span<std::byte> out) const {
  constexpr size_t kBlock = size_t{16} << 20;
  for (size_t done = 0; done < out.size();) {
    const ssize_t got =
        ::pread(descriptor_, out.data() + done, std::min(kBlock, out.size() - done), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "cannot be read at byte " + std::to_string(offset + done) + ": " + system_text(errno));
    if (got == 0)
      fail(path_, "ends at byte " + std::to_string(offset + done) + " where bytes up to " +
                      std::to_string(offset + out.size()) + " were expected (it had " + std::to_string(size_) +
                      " bytes when it was opened)");
    done += static_cast<size_t>(got);
  }
}

std::string read_text(const std::filesystem::path& path, uint64_t most) {
  const File file = File::open(path);
  if (file.size() > most)
    fail(path, "has " + std::to_string(file.size()) + " bytes, at most " + std::to_string(most) + " are read as text");
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace danqing
