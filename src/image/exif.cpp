#include "image/exif.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "image/unicode.h"

namespace danqing::exif {
namespace {

using View = std::span<const uint8_t>;

constexpr int kImageDescription = 0x010E, kOrientation = 0x0112, kExifDirectory = 0x8769, kUserComment = 0x9286;
constexpr int kAscii = 2, kShort = 3, kLong = 4, kUndefined = 7;
constexpr std::string_view kUnicode{"UNICODE\0", 8}, kAsciiCode{"ASCII\0\0\0", 8};

std::string_view text_of(View v) { return {reinterpret_cast<const char*>(v.data()), v.size()}; }

struct Tiff {
  View bytes;
  bool big = true;

  std::optional<uint32_t> number(size_t at, int size) const {
    if (at > bytes.size() || bytes.size() - at < size_t(size)) return {};
    uint32_t n = 0;
    for (int i = 0; i < size; ++i) n = n << 8 | bytes[at + (big ? i : size - 1 - i)];
    return n;
  }

  // The value of a tag in the directory at `at`; an integer (short or long) or bytes, as its type says.
  struct Entry {
    int type;
    View data;
  };
  std::optional<Entry> find(size_t at, int tag) const {
    const uint32_t count = number(at, 2).value_or(0);
    for (uint32_t i = 0; i < count; ++i) {
      const size_t entry = at + 2 + size_t{12} * i;
      const auto id = number(entry, 2), type = number(entry + 2, 2), n = number(entry + 4, 4);
      if (!id || !type || !n || !number(entry + 8, 4)) return {};
      if (int(*id) != tag) continue;
      const size_t size = size_t{*n} * (*type == kShort ? 2 : *type == kLong ? 4 : 1);
      const size_t start = size <= 4 ? entry + 8 : *number(entry + 8, 4);
      if (start > bytes.size() || bytes.size() - start < size) return {};
      return Entry{int(*type), bytes.subspan(start, size)};
    }
    return {};
  }
  std::optional<uint32_t> integer(size_t at, int tag) const {
    const auto entry = find(at, tag);
    if (!entry || (entry->type != kShort && entry->type != kLong)) return {};
    return number(entry->data.data() - bytes.data(), entry->type == kShort ? 2 : 4);
  }
};

std::optional<Tiff> open(View bytes) {
  if (text_of(bytes).starts_with(std::string_view("Exif\0\0", 6))) bytes = bytes.subspan(6);
  const std::string_view text = text_of(bytes);
  if (text.starts_with(std::string_view("MM\0*", 4))) return Tiff{bytes, true};
  if (text.starts_with(std::string_view("II*\0", 4))) return Tiff{bytes, false};
  return {};
}

// piexif writes big-endian text whatever the header says; in a little-endian file others write little-endian, so there
// the zero bytes of Latin letters decide.
bool big_endian_text(View text, bool big_header) {
  if (big_header) return true;
  size_t zeros[2] = {0, 0};
  for (size_t i = 0; i < text.size(); ++i) zeros[i % 2] += text[i] == 0;
  return zeros[0] >= zeros[1];
}

std::string user_comment(View data, bool big_header) {
  const std::string_view text = text_of(data);
  if (text.starts_with(kUnicode)) {
    const View units = data.subspan(8);
    return unicode::to_utf8(unicode::from_utf16(units, big_endian_text(units, big_header)));
  }
  const bool coded = text.starts_with(kAsciiCode) || text.starts_with(std::string_view("\0\0\0\0\0\0\0\0", 8));
  return unicode::clean(coded ? text.substr(8) : text);
}

void put(std::string& out, uint32_t n, int size) {
  for (int i = size - 1; i >= 0; --i) out += char(n >> (8 * i));
}

void put_entry(std::string& out, int tag, int type, size_t count, size_t value) {
  put(out, tag, 2);
  put(out, type, 2);
  put(out, count, 4);
  put(out, value, 4);
}

}  // namespace

int orientation(View bytes) {
  const auto tiff = open(bytes);
  if (!tiff) return 1;
  const uint32_t value = tiff->integer(tiff->number(4, 4).value_or(0), kOrientation).value_or(1);
  return value >= 1 && value <= 8 ? int(value) : 1;
}

Metadata metadata(View bytes) {
  Metadata out;
  const auto tiff = open(bytes);
  if (!tiff) return out;
  const size_t first = tiff->number(4, 4).value_or(0);
  if (const auto entry = tiff->find(first, kImageDescription); entry && entry->type == kAscii) {
    const std::string_view text = text_of(entry->data);
    out.json = unicode::clean(text.substr(0, text.find('\0')));
  }
  if (const auto at = tiff->integer(first, kExifDirectory)) {
    if (const auto entry = tiff->find(*at, kUserComment)) out.parameters = user_comment(entry->data, tiff->big);
  }
  return out;
}

std::string make(const Metadata& metadata) {
  std::string json = unicode::clean(metadata.json);
  std::string comment;
  if (!metadata.parameters.empty()) {
    comment = std::string(kUnicode) + unicode::to_utf16_be(unicode::from_utf8(unicode::clean(metadata.parameters)));
  }
  if (json.empty() && comment.empty()) return {};
  if (!json.empty()) json.resize(std::max<size_t>(json.size() + 1, 5));  // ends in NUL; past 4 bytes it stands outside
  const int entries = !json.empty() + !comment.empty();
  const size_t exif_at = 8 + 2 + 12 * entries + 4;  // after the first directory
  const size_t comment_at = exif_at + (comment.empty() ? 0 : 2 + 12 + 4);
  const size_t json_at = comment_at + comment.size();  // UTF-16 with its prefix: an even count

  std::string out("MM\0*\0\0\0\x08", 8);
  put(out, entries, 2);
  if (!json.empty()) put_entry(out, kImageDescription, kAscii, json.size(), json_at);
  if (!comment.empty()) put_entry(out, kExifDirectory, kLong, 1, exif_at);
  put(out, 0, 4);
  if (!comment.empty()) {
    put(out, 1, 2);
    put_entry(out, kUserComment, kUndefined, comment.size(), comment_at);
    put(out, 0, 4);
  }
  return out + comment + json;
}

}  // namespace danqing::exif
