#include "weights/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "weights/container.h"
#include "weights/json_text.h"

namespace danqing {
namespace {

constexpr char kConfigKey[] = "danqing.config";

bool starts_with_any_case(std::string_view text, std::string_view wanted) {
  return text.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? b + 32 : b);
         });
}

// What a file that is no safetensors file really is, so that the message can name the cause.
std::string other_kind(std::string_view head) {
  std::string_view text = head;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with("version https://git-lfs"))
    return "is a Git LFS pointer, not the file itself: fetch it with `git lfs pull` or download it again";
  for (const char* tag : {"<!doctype", "<html", "<?xml", "<head", "<!--"})
    if (starts_with_any_case(text, tag)) return "is a web page, not weights: the download went wrong (a login page?)";
  if (head.starts_with("\x1f\x8b")) return "is gzip-compressed: unpack it first";
  if (head.starts_with("7z\xbc\xaf") || head.starts_with("Rar!")) return "is a packed archive: unpack it first";
  if (head.starts_with("\x89PNG") || head.starts_with("\xff\xd8\xff")) return "is a picture, not weights";
  if (head.size() > 262 && head.substr(257, 5) == "ustar") return "is a tar archive: unpack it first";
  if (text.starts_with("{") || text.starts_with("["))
    return "is JSON text, not weights (an error message saved in its place?)";
  return "";
}

Contents read_container(const File& file) {
  char buffer[512];
  const std::string_view head(buffer, std::min<uint64_t>(file.size(), sizeof buffer));
  file.read_at(0, std::as_writable_bytes(std::span(buffer, head.size())));
  if (head.empty()) fail_in(file, "is empty (0 bytes)");
  // A real header wins over any signature: its length may spell one by chance.
  uint64_t length = 0;
  if (head.size() > 8) std::memcpy(&length, head.data(), 8);
  const bool plain = head.size() > 8 && length <= file.size() - 8 && head[8] == '{';
  if (!plain)
    if (const std::string kind = other_kind(head); !kind.empty()) fail_in(file, kind);
  constexpr std::string_view kLegacyMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);
  if (!plain && head.starts_with("GGUF")) return read_gguf(file);
  if (!plain && head.starts_with("PK\3\4")) return read_zip_checkpoint(file);
  if (!plain && head.starts_with(kLegacyMagic)) return read_legacy_checkpoint(file);
  if (!plain && head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    fail_in(file, "is a plain Python pickle, not a torch checkpoint");
  return read_safetensors(file);
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path, const OpenOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return open(File::open(path));
  Checkpoint c;
  c.path_ = path;
  if (std::filesystem::exists(path / "model_index.json", ignored))
    c.add_pipeline(options);
  else
    c.add_folder(path, "", options);
  c.finish();
  return c;
}

Checkpoint Checkpoint::open(File file) {
  Checkpoint c;
  c.path_ = file.path();
  c.add_file(std::move(file), "");
  c.finish();
  const auto stamped = c.metadata_.find(kConfigKey);
  if (stamped == c.metadata_.end()) return c;
  const auto configs = parse_json_object(stamped->second, c.path_.string() + ": metadata " + kConfigKey);
  for (const auto& [component, config] : configs.items()) c.configs_.emplace(component, config.dump());
  return c;
}

void Checkpoint::add_file(File file, const std::string& prefix) {
  Contents contents = read_container(file);
  for (TensorInfo& t : contents.tensors) {
    t.name.insert(0, prefix);
    t.file = static_cast<int>(files_.size());
    tensors_.push_back(std::move(t));
  }
  metadata_.merge(contents.metadata);
  notes_.insert(notes_.end(), contents.notes.begin(), contents.notes.end());
  files_.push_back(std::move(file));
}

void Checkpoint::finish() {
  std::sort(tensors_.begin(), tensors_.end(), [](auto& a, auto& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(tensors_.begin(), tensors_.end(), [](auto& a, auto& b) { return a.name == b.name; });
  if (twin != tensors_.end())
    throw Error(Fault::file, path_.string() + ": " + in_quotes(twin->name) + " stands in " +
                                 files_[twin->file].path().string() + " and in " +
                                 files_[std::next(twin)->file].path().string());
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorInfo& t, std::string_view wanted) { return t.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const std::string* Checkpoint::config(std::string_view component) const {
  const auto at = configs_.find(component);
  return at == configs_.end() ? nullptr : &at->second;
}

void Checkpoint::read(const TensorInfo& t, std::span<std::byte> out) const {
  DANQING_CHECK(out.size() == t.bytes);
  if (t.strides)
    read_strided(t, 0, t.shape.rank() == 0 ? 1 : t.shape[0], out);
  else
    files_.at(t.file).read_at(t.offset, out);
}

void Checkpoint::read_rows(const TensorInfo& t, int64_t first, int64_t count, std::span<std::byte> out) const {
  DANQING_CHECK(t.shape.rank() > 0 && first >= 0 && count >= 0 && first + count <= t.shape[0]);
  if (count == 0) return;
  const uint64_t row = t.bytes / t.shape[0];
  DANQING_CHECK(row * t.shape[0] == t.bytes && out.size() == row * count);
  if (t.strides)
    read_strided(t, first, count, out);
  else
    files_.at(t.file).read_at(t.offset + row * first, out);
}

// Reads the span of the storage that the rows touch and gathers from it.
void Checkpoint::read_strided(const TensorInfo& t, int64_t first, int64_t count, std::span<std::byte> out) const {
  if (out.empty()) return;
  const size_t size = info(t.dtype).bytes;
  const int rank = t.shape.rank();
  Shape shape = t.shape;
  if (rank > 0) shape[0] = count;
  uint64_t last = 0;  // element of the storage that lies farthest
  for (int i = 0; i < rank; ++i) last += static_cast<uint64_t>((shape[i] - 1) * (*t.strides)[i]);
  std::vector<std::byte> storage((last + 1) * size);
  files_.at(t.file).read_at(t.offset + (rank > 0 ? first * (*t.strides)[0] : 0) * size, storage);
  std::array<int64_t, Shape::kMaxRank> at{};
  uint64_t from = 0;
  for (size_t to = 0; to < out.size(); to += size) {
    std::memcpy(out.data() + to, storage.data() + from * size, size);
    for (int axis = rank - 1; axis >= 0; --axis) {
      from += (*t.strides)[axis];
      if (++at[axis] < shape[axis]) break;
      from -= (*t.strides)[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace danqing
