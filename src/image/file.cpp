// Picture files: read whole within a limit; written whole or not at all, under names that no other process takes.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "image/codec.h"
#include "image/write.h"

namespace danqing {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void failed(const std::string& path, const std::string& what, int error) {
  throw Error(Fault::file, path + ": " + what + ": " + std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int close() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// A hidden file in the folder of its target, removed unless it was moved there.
class Draft {
 public:
  explicit Draft(const std::string& target) : target_(target) {
    const fs::path folder = fs::path(target).parent_path();
    std::random_device random;
    for (int attempt = 0; attempt < 100 && fd_.get() < 0; ++attempt) {
      path_ = (folder / (".danqing-" + std::to_string(random()) + ".part")).string();
      fd_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd_.get() < 0 && errno != EEXIST) failed(target, "cannot be written", errno);
    }
    if (fd_.get() < 0) failed(target, "cannot be written", EEXIST);
  }
  ~Draft() {
    if (!moved_) ::unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;

  void write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) failed(target_, "cannot be written", n < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(n);
    }
    // Some file systems refuse to synchronise (EINVAL); what cannot be promised there is not an error.
    if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != ENOTSUP) failed(target_, "cannot be written", errno);
    if (fd_.close() != 0) failed(target_, "cannot be written", errno);
  }

  // False if the target (in the same folder) exists and may not be replaced.
  bool move(const std::string& target, Existing existing) {
    if (existing == Existing::replace) {
      moved_ = ::rename(path_.c_str(), target.c_str()) == 0;
    } else {
      moved_ = ::syscall(SYS_renameat2, AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0;
      if (!moved_ && (errno == EINVAL || errno == ENOSYS)) {  // a file system without it: a link never replaces
        if (::link(path_.c_str(), target.c_str()) == 0) return true;
      }
      if (!moved_ && errno == EEXIST) return false;
    }
    if (!moved_) failed(target, "cannot be written", errno);
    return true;
  }

 private:
  std::string target_, path_;
  Descriptor fd_{-1};
  bool moved_ = false;
};

// The number in "stem-NNNN.anything".
std::optional<int64_t> number_in(const std::string& file, const std::string& stem) {
  if (file.size() <= stem.size() + 1 || file.compare(0, stem.size(), stem) != 0 || file[stem.size()] != '-') return {};
  const char* end = file.data() + file.size();
  int64_t n = 0;
  const auto [stop, error] = std::from_chars(file.data() + stem.size() + 1, end, n);
  constexpr int64_t kLargest = 999'999'999'999'999;  // beyond it, no number of ours
  if (error != std::errc() || stop == end || *stop != '.' || n < 0 || n > kLargest) return {};
  return n;
}

}  // namespace

void write_file(const std::string& path, std::span<const uint8_t> bytes, Existing existing) {
  Draft draft(path);
  draft.write(bytes);
  if (!draft.move(path, existing)) throw Error(Fault::request, path + " exists already and is not overwritten");
}

std::string next_free_name(const std::string& folder, const std::string& stem, const std::string& ending) {
  int64_t highest = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end; it.increment(error)) {
    highest = std::max(highest, number_in(it->path().filename().string(), stem).value_or(0));
  }
  if (error && error != std::errc::no_such_file_or_directory) failed(folder, "cannot be listed", error.value());
  std::string number = std::to_string(highest + 1);
  if (number.size() < 4) number.insert(0, 4 - number.size(), '0');
  return stem + "-" + number + "." + ending;
}

std::string write_numbered(const std::string& folder, const std::string& stem, const std::string& ending,
                           const Image& image, const Metadata& metadata, const WriteOptions& options) {
  const codec::Bytes bytes = encode_image(ending, image, metadata, options);
  auto path = [&] { return (fs::path(folder) / next_free_name(folder, stem, ending)).string(); };
  std::string target = path();
  Draft draft(target);
  draft.write(bytes);
  // Another process may take the number between looking and moving: look again.
  while (!draft.move(target, Existing::refuse)) target = path();
  return target;
}

namespace codec {

Bytes read_picture_file(const std::string& path) {
  const File file = File::open(path);
  if (file.size() > uint64_t(kMaxPictureFile)) {
    broken(path, std::to_string(file.size()) + " bytes, a picture file may have " + std::to_string(kMaxPictureFile));
  }
  Bytes bytes(file.size());
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace codec
}  // namespace danqing
