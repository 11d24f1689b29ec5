#include "weights/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "weights/container.h"

namespace danqing {
namespace {

// A file that is named only when it is whole.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path) : path_(std::move(path)) {
    // The target's own name may already fill the 255 bytes that a name can have.
    temporary_ = (path_.parent_path() / ".danqing-XXXXXX").string();
    descriptor_ = ::mkstemp(temporary_.data());
    if (descriptor_ < 0) fail("cannot be created");
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!done_) ::unlink(temporary_.c_str());
  }
  void write(const void* data, size_t size) {
    const char* from = static_cast<const char*>(data);
    for (size_t done = 0; done < size;) {
      const ssize_t put = ::write(descriptor_, from + done, std::min(size - done, size_t{16} << 20));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("cannot be written at byte " + std::to_string(written_ + done));
      done += static_cast<size_t>(put);
    }
    written_ += size;
  }
  void pad(uint64_t alignment) {
    const std::string zeros((alignment - written_ % alignment) % alignment, '\0');
    write(zeros.data(), zeros.size());
  }
  void finish() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, 0666 & ~mask) != 0 || ::fsync(descriptor_) != 0) fail("cannot be completed");
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be completed");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be put in place");
    done_ = true;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const int code = errno;
    throw Error(Fault::file, path_.string() + ": " + what + ": " + std::strerror(code));
  }
  std::filesystem::path path_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t written_ = 0;
  bool done_ = false;
};

void check_names(const std::filesystem::path& path, const std::vector<TensorOut>& tensors) {
  std::set<std::string_view> seen;
  for (const TensorOut& t : tensors)
    if (!seen.insert(t.name).second)
      throw Error(Fault::request, path.string() + ": " + in_quotes(t.name) + " would be written twice");
}

std::string safetensors_type(const std::filesystem::path& path, const TensorOut& t) {
  switch (t.dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::i16:
      return "I16";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e5m2:
      return "F8_E5M2";
    default:
      throw Error(Fault::request, path.string() + ": " + in_quotes(t.name) + " is " + std::string(name(t.dtype)) +
                                      ", which safetensors cannot hold: write GGUF");
  }
}

uint32_t gguf_type(const std::filesystem::path& path, const TensorOut& t) {
  for (const auto& [type, id] : std::initializer_list<std::pair<DType, uint32_t>>{{DType::f32, 0},
                                                                                  {DType::f16, 1},
                                                                                  {DType::q4_0, 2},
                                                                                  {DType::q4_1, 3},
                                                                                  {DType::q5_0, 6},
                                                                                  {DType::q5_1, 7},
                                                                                  {DType::q8_0, 8},
                                                                                  {DType::q2_k, 10},
                                                                                  {DType::q3_k, 11},
                                                                                  {DType::q4_k, 12},
                                                                                  {DType::q5_k, 13},
                                                                                  {DType::q6_k, 14},
                                                                                  {DType::i8, 24},
                                                                                  {DType::i16, 25},
                                                                                  {DType::i32, 26},
                                                                                  {DType::i64, 27},
                                                                                  {DType::f64, 28},
                                                                                  {DType::bf16, 30}})
    if (type == t.dtype) return id;
  throw Error(Fault::request, path.string() + ": " + in_quotes(t.name) + " is " + std::string(name(t.dtype)) +
                                  ", which GGUF cannot hold");
}

uint64_t size_of(const TensorOut& t) { return static_cast<uint64_t>(bytes_of(t.dtype, t.shape.count())); }

void put_tensor(NewFile& file, const TensorOut& t, size_t index, const FillTensor& fill) {
  std::vector<std::byte> bytes(size_of(t));
  fill(index, bytes);
  file.write(bytes.data(), bytes.size());
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorOut>& tensors,
                       const MetadataOut& metadata, const FillTensor& fill) {
  check_names(path, tensors);
  // Widest elements first keeps every tensor aligned to its own.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return info(tensors[a].dtype).bytes > info(tensors[b].dtype).bytes; });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (size_t i : order) {
    const TensorOut& t = tensors[i];
    if (t.name == "__metadata__")
      throw Error(Fault::request, path.string() + ": a tensor cannot be named __metadata__");
    header[t.name] = {{"dtype", safetensors_type(path, t)},
                      {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                      {"data_offsets", {at, at + size_of(t)}}};
    at += size_of(t);
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& e) {
    throw Error(Fault::request, path.string() + ": a name or a metadata text is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  NewFile file(path);
  const uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  for (size_t i : order) put_tensor(file, tensors[i], i, fill);
  file.finish();
}

void write_gguf(const std::filesystem::path& path, const std::string& architecture,
                const std::vector<TensorOut>& tensors, const MetadataOut& metadata, const FillTensor& fill) {
  constexpr uint64_t kAlignment = 32;
  constexpr uint32_t kString = 8;
  check_names(path, tensors);
  MetadataOut all = metadata;
  all["general.architecture"] = architecture;
  all.erase("general.alignment");  // a number, and 32 is what its absence means
  std::string head = "GGUF";
  put<uint32_t>(head, 3);
  put<uint64_t>(head, tensors.size());
  put<uint64_t>(head, all.size());
  for (const auto& [key, value] : all) {
    put_text(head, key);
    put<uint32_t>(head, kString);
    put_text(head, value);
  }
  uint64_t at = 0;
  for (const TensorOut& t : tensors) {
    if (t.shape.rank() > 4 || (t.shape.rank() > 0 && t.shape.back() % info(t.dtype).block != 0))
      throw Error(Fault::request, path.string() + ": " + in_quotes(t.name) + " is " + to_string(t.shape) + " " +
                                      std::string(name(t.dtype)) + ", which GGUF cannot hold");
    put_text(head, t.name);
    put<uint32_t>(head, static_cast<uint32_t>(t.shape.rank()));
    for (int i = t.shape.rank() - 1; i >= 0; --i) put<uint64_t>(head, static_cast<uint64_t>(t.shape[i]));
    put<uint32_t>(head, gguf_type(path, t));
    put<uint64_t>(head, at);
    at += (size_of(t) + kAlignment - 1) / kAlignment * kAlignment;
  }
  NewFile file(path);
  file.write(head.data(), head.size());
  file.pad(kAlignment);
  for (size_t i = 0; i < tensors.size(); ++i) {
    put_tensor(file, tensors[i], i, fill);
    file.pad(kAlignment);
  }
  file.finish();
}

}  // namespace danqing
