// Reader of the safetensors header (8 bytes of length, a JSON object, data). Nothing is trusted: every tensor must lie
// inside the file, have just the bytes its shape and type need, and the data must be covered without hole or overlap.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "weights/container.h"

namespace danqing {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own cap

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  // none: valid, but nothing here can use it
};

constexpr StoredType kTypes[] = {
    {"F32", 32, DType::f32},          {"F16", 16, DType::f16},        {"BF16", 16, DType::bf16},
    {"F64", 64, DType::f64},          {"I64", 64, DType::i64},        {"I32", 32, DType::i32},
    {"I16", 16, DType::i16},          {"I8", 8, DType::i8},           {"U8", 8, DType::u8},
    {"BOOL", 8, DType::boolean},      {"F8_E4M3", 8, DType::f8_e4m3}, {"F8_E5M2", 8, DType::f8_e5m2},
    {"U16", 16, std::nullopt},        {"U32", 32, std::nullopt},      {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},        {"F8_E8M0", 8, std::nullopt},   {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F4", 4, std::nullopt},        {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
};

struct Entry {
  std::string name, type;
  std::vector<uint64_t> shape, offsets;
  bool has_type = false, has_shape = false, has_offsets = false;
};

// Takes the header apart as it is parsed: 1 = the header's keys, 2 = the fields of an entry, 3 = the numbers of a
// field.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const File& file) : file_(file) {}
  std::vector<Entry> entries;
  Contents contents;

  bool start_object(size_t) override {
    if (depth_ == 1 && !in_metadata_) {
      entries.push_back({.name = key_});
    } else if (depth_ == 1) {
      metadata_is_object_ = true;
    } else if (depth_ >= 2) {
      odd_value("an object");
    }
    return enter();
  }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override {
    if (depth_ == 0) fail_in(file_, "the header is not a JSON object");
    if (depth_ == 1 && !in_metadata_) fail_in(file_, in_quotes(key_) + " is an array, not a description of a tensor");
    Entry* e = depth_ == 2 && !in_metadata_ ? &entries.back() : nullptr;
    if (e && field_ == "shape") {
      e->has_shape = true;
      numbers_ = &e->shape;
    } else if (e && field_ == "data_offsets") {
      e->has_offsets = true;
      numbers_ = &e->offsets;
    } else {
      odd_value("an array");
    }
    return enter();
  }
  bool end_array() override {
    numbers_ = nullptr;
    return leave();
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!seen_.insert(text).second) fail_in(file_, "duplicate key " + in_quotes(text));
      key_ = text;
      in_metadata_ = text == "__metadata__";
    } else if (depth_ == 2) {
      if (repeated(text)) fail_in(file_, "duplicate key " + in_quotes(text) + " in " + in_quotes(key_));
      field_ = text;
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata_ && metadata_is_object_) {
      contents.metadata.emplace(field_, text);
    } else if (depth_ == 2 && !in_metadata_ && field_ == "dtype") {
      entries.back().has_type = true;
      entries.back().type = text;
    } else {
      odd_value("a string");
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!numbers_) return odd_value("a number");
    numbers_->push_back(value);
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (numbers_)
      fail_in(file_, in_quotes(key_) + " has the negative number " + std::to_string(value) + " in " + field_);
    return odd_value("a number");
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (numbers_)
      fail_in(file_, in_quotes(key_) + " has " + in_quotes(text) + " in " + field_ + ", not a whole number of 64 bits");
    return odd_value("a number");
  }
  bool null() override { return in_metadata_ && depth_ == 1 ? true : odd_value("null"); }
  bool boolean(bool) override { return odd_value("a boolean"); }
  bool binary(binary_t&) override { return odd_value("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    fail_in(file_, "the header is not valid JSON at byte " + std::to_string(8 + at) + " (" +
                       std::string(e.what()).substr(0, 200) + ")");
  }

 private:
  bool repeated(const std::string& field) const {
    if (in_metadata_) return contents.metadata.contains(field);
    const Entry& e = entries.back();
    return (field == "dtype" && e.has_type) || (field == "shape" && e.has_shape) ||
           (field == "data_offsets" && e.has_offsets);
  }

  // A value where none of its kind belongs: unknown fields of an entry and odd metadata are passed over.
  bool odd_value(const std::string& kind) {
    if (depth_ == 0) fail_in(file_, "the header is " + kind + ", not a JSON object");
    if (in_metadata_) {
      if (depth_ == 1) contents.notes.push_back(file_.path().string() + ": __metadata__ is " + kind + ", left out");
      if (depth_ == 2 && metadata_is_object_)
        contents.notes.push_back(file_.path().string() + ": metadata " + in_quotes(field_) + " is " + kind +
                                 ", not a string: left out");
      return true;
    }
    if (depth_ == 1) fail_in(file_, in_quotes(key_) + " is " + kind + ", not a description of a tensor");
    if (numbers_) fail_in(file_, in_quotes(key_) + " has " + kind + " in " + field_);
    if (depth_ == 2 && (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets"))
      fail_in(file_, in_quotes(key_) + " has " + kind + " as " + field_);
    return true;
  }
  bool enter() {
    if (++depth_ > 100) fail_in(file_, "the header is nested deeper than 100 levels");
    return true;
  }
  bool leave() { return --depth_, true; }

  const File& file_;
  int depth_ = 0;
  bool in_metadata_ = false, metadata_is_object_ = false;
  std::string key_, field_;
  std::vector<uint64_t>* numbers_ = nullptr;
  std::unordered_set<std::string> seen_;
};

std::string header_text(const File& file) {
  if (file.size() < 8)
    fail_in(file,
            "has " + std::to_string(file.size()) + " bytes, a safetensors file begins with 8 bytes of header length");
  uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader)
    fail_in(file, "is not a safetensors file: its first 8 bytes ask for a header of " + std::to_string(length) +
                      " bytes, the cap is " + std::to_string(kMaxHeader));
  if (length > file.size() - 8)
    fail_in(file, "is cut off inside its header: the file has " + std::to_string(file.size()) +
                      " bytes, the header needs " + std::to_string(length + 8));
  if (length < 2) fail_in(file, "has a header of " + std::to_string(length) + " bytes, too short for JSON");
  std::string text(length, '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text)));
  if (text.starts_with("\xef\xbb\xbf")) fail_in(file, "has a byte order mark before its JSON header");
  if (text.find('\0') != std::string::npos)
    fail_in(file, "has NUL bytes in its header (padding must be spaces): rewrite the file with another tool");
  return text;
}

// The bytes an entry needs, or an Error where type, shape and range do not agree.
TensorInfo checked(const File& file, const Entry& e, const StoredType& type) {
  const auto range = [&] { return "[" + std::to_string(e.offsets[0]) + ", " + std::to_string(e.offsets[1]) + "]"; };
  const Shape shape = checked_shape(file, e.name, e.shape);
  if (e.offsets[0] > e.offsets[1]) fail_in(file, in_quotes(e.name) + " ends before it begins: data_offsets " + range());
  const unsigned __int128 bits = static_cast<unsigned __int128>(shape.count()) * type.bits;
  if (bits % 8 != 0 || bits / 8 != e.offsets[1] - e.offsets[0])
    fail_in(file, in_quotes(e.name) + " is " + to_string(shape) + " " + std::string(type.name) + " but has " +
                      std::to_string(e.offsets[1] - e.offsets[0]) + " bytes, data_offsets " + range());
  return {.name = e.name,
          .dtype = type.dtype.value_or(DType::u8),
          .shape = shape,
          .offset = e.offsets[0],
          .bytes = e.offsets[1] - e.offsets[0]};
}

// Sorted by place, each tensor must begin where the one before it ended, and the last must end the file.
void check_cover(const File& file, std::vector<Entry>& entries, uint64_t start) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  const Entry* before = nullptr;
  uint64_t end = 0;
  for (const Entry& e : entries) {
    if (e.offsets[0] < end) fail_in(file, in_quotes(e.name) + " overlaps with " + in_quotes(before->name));
    if (e.offsets[0] > end)
      fail_in(file, "has a hole of " + std::to_string(e.offsets[0] - end) + " bytes before " + in_quotes(e.name));
    before = &e;
    end = e.offsets[1];
  }
  const uint64_t have = file.size() - start;
  if (end > have)
    fail_in(file, "is cut off: the file has " + std::to_string(file.size()) + " bytes, its header needs " +
                      std::to_string(start) + " + " + std::to_string(end) + " (" + in_quotes(before->name) +
                      " is the last)");
  if (end < have) fail_in(file, "has " + std::to_string(have - end) + " bytes after its last tensor");
}

}  // namespace

Contents read_safetensors(const File& file) {
  const std::string text = header_text(file);
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  std::vector<TensorInfo> tensors;
  const uint64_t start = 8 + text.size();
  for (const Entry& e : reader.entries) {
    if (!e.has_type || !e.has_shape || !e.has_offsets || e.offsets.size() != 2)
      fail_in(file, in_quotes(e.name) + " needs dtype, shape and two data_offsets");
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.name == e.type; });
    if (type == std::end(kTypes)) fail_in(file, in_quotes(e.name) + " has the unknown type " + in_quotes(e.type));
    TensorInfo info = checked(file, e, *type);
    info.offset += start;
    if (type->dtype)
      tensors.push_back(std::move(info));
    else
      reader.contents.notes.push_back(file.path().string() + ": " + in_quotes(e.name) + " is of type " + e.type +
                                      ", which danqing does not read: left out");
  }
  check_cover(file, reader.entries, start);
  reader.contents.tensors = std::move(tensors);
  return std::move(reader.contents);
}

}  // namespace danqing
