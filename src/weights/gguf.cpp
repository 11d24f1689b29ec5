// Reader of GGUF headers, versions 2 and 3 (little-endian): metadata, then tensors with sizes innermost first.
// Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Every tensor must lie inside the file and touch no other.
#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_set>

#include "base/error.h"
#include "weights/byte_reader.h"
#include "weights/container.h"

namespace danqing {
namespace {

constexpr uint64_t kMaxHeader = 256u << 20;
constexpr uint64_t kMaxText = 16u << 20, kMaxName = 4096;
constexpr uint32_t kString = 8, kArray = 9;

struct StoredType {
  uint32_t id;
  DType dtype;
};
constexpr StoredType kTypes[] = {
    {0, DType::f32},  {1, DType::f16},   {2, DType::q4_0},  {3, DType::q4_1},  {6, DType::q5_0},  {7, DType::q5_1},
    {8, DType::q8_0}, {10, DType::q2_k}, {11, DType::q3_k}, {12, DType::q4_k}, {13, DType::q5_k}, {14, DType::q6_k},
    {24, DType::i8},  {25, DType::i16},  {26, DType::i32},  {27, DType::i64},  {28, DType::f64},  {30, DType::bf16},
};

// Bytes of a metadata value type; 0: not of fixed size, or unknown.
constexpr int kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string shortest(auto value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string scalar(ByteReader& in, uint32_t type) {
  switch (type) {
    case 0:
      return shortest(in.take<uint8_t>());
    case 1:
      return shortest(in.take<int8_t>());
    case 2:
      return shortest(in.take<uint16_t>());
    case 3:
      return shortest(in.take<int16_t>());
    case 4:
      return shortest(in.take<uint32_t>());
    case 5:
      return shortest(in.take<int32_t>());
    case 6:
      return shortest(in.take<float>());
    case 7:
      return in.take<uint8_t>() ? "true" : "false";
    case kString:
      return in.take_text(in.take<uint64_t>(), kMaxText);
    case 10:
      return shortest(in.take<uint64_t>());
    case 11:
      return shortest(in.take<int64_t>());
    case 12:
      return shortest(in.take<double>());
    default:
      in.fail("unknown metadata type " + std::to_string(type));
  }
}

// "[1,2,3]" for a short list of numbers; long lists and lists of texts (vocabularies) are passed over.
std::string array(ByteReader& in, int depth = 0) {
  const uint32_t type = in.take<uint32_t>();
  const uint64_t count = in.take<uint64_t>();
  if (depth > 3) in.fail("arrays nested deeper than 4 levels");
  if (type > 12) in.fail("unknown metadata type " + std::to_string(type) + " in an array");
  const uint64_t least = type == kString ? 8 : type == kArray ? 12 : kSizes[type];
  if (count > in.left() / least) in.fail("an array of " + std::to_string(count) + " values is longer than the file");
  if (type == kString) {
    for (uint64_t i = 0; i < count; ++i) in.skip(in.take<uint64_t>());
  } else if (type == kArray) {
    for (uint64_t i = 0; i < count; ++i) array(in, depth + 1);
  } else if (count > 64) {
    in.skip(count * least);
  } else {
    std::string text = "[";
    for (uint64_t i = 0; i < count; ++i) text += (i ? "," : "") + scalar(in, type);
    return text + "]";
  }
  return "";
}

uint64_t read_metadata(ByteReader& in, uint64_t count, Contents& contents) {
  uint64_t alignment = 32;
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = in.take_text(in.take<uint64_t>(), kMaxName);
    if (!seen.insert(key).second) in.fail("duplicate key " + in_quotes(key));
    const uint32_t type = in.take<uint32_t>();
    std::string value = type == kArray ? array(in) : scalar(in, type);
    if (key == "general.alignment") {
      if (type != 4) in.fail("general.alignment is of type " + std::to_string(type) + ", not a 32-bit whole number");
      std::from_chars(value.data(), value.data() + value.size(), alignment);
      if (!std::has_single_bit(alignment)) in.fail("general.alignment is " + value + ", not a power of two");
    }
    if (!value.empty()) contents.metadata.emplace(std::move(key), std::move(value));
  }
  return alignment;
}

// Some converters fold sizes to fit the format and keep the true ones beside: comfy.gguf.orig_shape.NAME = [..].
Shape true_shape(const File& file, const Contents& contents, const TensorInfo& t) {
  const auto kept = contents.metadata.find("comfy.gguf.orig_shape." + t.name);
  if (kept == contents.metadata.end()) return t.shape;
  std::vector<uint64_t> sizes;
  const char *at = kept->second.data(), *end = at + kept->second.size();
  while (at < end) {
    uint64_t size = 0;
    const auto [next, failed] = std::from_chars(at + 1, end, size);
    if (failed != std::errc()) break;
    sizes.push_back(size);
    at = next;
  }
  const Shape shape = checked_shape(file, t.name, sizes);
  if (shape.count() != t.shape.count())
    fail_in(file, in_quotes(t.name) + " is " + to_string(t.shape) + " but its kept shape is " + kept->second);
  return shape;
}

TensorInfo read_tensor(ByteReader& in) {
  TensorInfo t;
  t.name = in.take_text(in.take<uint64_t>(), kMaxName);
  const uint32_t rank = in.take<uint32_t>();
  if (rank > 4) in.fail(in_quotes(t.name) + " has " + std::to_string(rank) + " dimensions, the format has at most 4");
  std::vector<uint64_t> sizes(rank);
  for (uint32_t i = 0; i < rank; ++i) sizes[rank - 1 - i] = in.take<uint64_t>();
  t.shape = checked_shape(in.file(), t.name, sizes);
  const uint32_t type = in.take<uint32_t>();
  const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& k) { return k.id == type; });
  if (known == std::end(kTypes))
    in.fail(in_quotes(t.name) + " is of type " + std::to_string(type) +
            ", which danqing does not read (it reads F32, F16, " +
            "BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K to Q6_K)");
  t.dtype = known->dtype;
  const DTypeInfo& d = info(t.dtype);
  const int64_t row = rank == 0 ? 1 : t.shape.back();
  if (row % d.block != 0)
    in.fail(in_quotes(t.name) + " is " + to_string(t.shape) + " " + std::string(d.name) +
            ": rows of that type are multiples of " + std::to_string(d.block));
  if (t.shape.count() / d.block > static_cast<int64_t>(in.file().size()) / d.bytes)
    in.fail(in_quotes(t.name) + " is " + to_string(t.shape) + " " + std::string(d.name) + ": the file has only " +
            std::to_string(in.file().size()) + " bytes");
  t.bytes = static_cast<uint64_t>(bytes_of(t.dtype, t.shape.count()));
  t.offset = in.take<uint64_t>();
  return t;
}

void check_places(const File& file, std::vector<TensorInfo>& tensors, uint64_t start, uint64_t alignment) {
  for (TensorInfo& t : tensors) {
    if (t.offset % alignment != 0)
      fail_in(file, in_quotes(t.name) + " begins at " + std::to_string(t.offset) + ", not a multiple of " +
                        std::to_string(alignment));
    if (t.offset > file.size() || start + t.offset > file.size() || t.bytes > file.size() - start - t.offset)
      fail_in(file, "is cut off: it has " + std::to_string(file.size()) + " bytes, " + in_quotes(t.name) + " needs " +
                        std::to_string(t.bytes) + " from byte " + std::to_string(start) + " + " +
                        std::to_string(t.offset) + " on");
    t.offset += start;
  }
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& t : tensors)
    if (t.bytes > 0) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
      fail_in(file, in_quotes(order[i]->name) + " overlaps with " + in_quotes(order[i - 1]->name));
}

}  // namespace

Contents read_gguf(const File& file) {
  ByteReader in(file, 0, std::min(file.size(), kMaxHeader), "GGUF header");
  in.skip(4);
  const uint32_t version = in.take<uint32_t>();
  if (version != 2 && version != 3)
    in.fail(version == 0x02000000 || version == 0x03000000
                ? "a big-endian file, which danqing does not read"
                : "GGUF version " + std::to_string(version) + ", danqing reads 2 and 3");
  const uint64_t tensors = in.take<uint64_t>(), values = in.take<uint64_t>();
  // A tensor takes 24 bytes at least, a value 13: counts past that are lies.
  if (tensors > in.left() / 24)
    in.fail(std::to_string(tensors) + " tensors are announced, more than the file can hold");
  if (values > in.left() / 13)
    in.fail(std::to_string(values) + " metadata values are announced, more than the file can hold");
  Contents contents;
  const uint64_t alignment = read_metadata(in, values, contents);
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < tensors; ++i) {
    TensorInfo t = read_tensor(in);
    if (!seen.insert(t.name).second) in.fail("duplicate tensor " + in_quotes(t.name));
    contents.tensors.push_back(std::move(t));
  }
  const uint64_t start = (in.position() + alignment - 1) / alignment * alignment;
  if (start > file.size() && !contents.tensors.empty()) in.fail("the file ends before its data");
  check_places(file, contents.tensors, start, alignment);
  for (TensorInfo& t : contents.tensors) t.shape = true_shape(file, contents, t);
  return contents;
}

}  // namespace danqing
