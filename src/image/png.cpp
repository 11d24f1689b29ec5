// PNG by libpng. libpng reports errors by longjmp: `guarded` is the only frame it may land in, so code inside it holds
// no object with a destructor while libpng runs.
#include <png.h>

#include <algorithm>
#include <cstring>

#include "image/codec.h"
#include "image/exif.h"
#include "image/unicode.h"

namespace danqing::codec {
namespace {

constexpr int64_t kDeflateRatio = 1032;  // the most that deflate can pack
constexpr int kTextLimit = 8 << 20;      // bytes of one text chunk, unpacked

struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool writing = false;
  View input;
  size_t at = 0;
  Bytes output;
  std::string error;

  explicit Session(bool for_writing) : writing(for_writing) {
    png = writing ? png_create_write_struct(PNG_LIBPNG_VER_STRING, this, fail, quiet)
                  : png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, quiet);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) throw std::bad_alloc();
  }
  ~Session() { writing ? png_destroy_write_struct(&png, &info) : png_destroy_read_struct(&png, &info, nullptr); }
  Session(const Session&) = delete;

  static void fail(png_structp png, png_const_charp text) {
    static_cast<Session*>(png_get_error_ptr(png))->error = text;
    png_longjmp(png, 1);
  }
  static void quiet(png_structp, png_const_charp) {}
  static void take(png_structp png, png_bytep out, size_t n) {
    auto* s = static_cast<Session*>(png_get_io_ptr(png));
    if (n > s->input.size() - s->at) png_error(png, "the file ends early");
    std::memcpy(out, s->input.data() + s->at, n);
    s->at += n;
  }
  static void give(png_structp png, png_bytep data, size_t n) {
    auto* s = static_cast<Session*>(png_get_io_ptr(png));
    s->output.insert(s->output.end(), data, data + n);
  }
  static void flush(png_structp) {}
};

template <class Body>
bool guarded(Session& s, Body body) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  body();
  return true;
}

// libpng takes memory for a chunk by the length it claims: no chunk may claim more than the file has.
void check_chunks(View bytes, const std::string& name) {
  size_t at = 8;
  while (bytes.size() - at >= 12) {
    const uint32_t size = uint32_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    if (size > bytes.size() - at - 12) break;
    if (std::memcmp(&bytes[at + 4], "IEND", 4) == 0) return;
    at += size_t{12} + size;
  }
  broken(name, "broken PNG: the file ends early or a chunk claims more than it has");
}

void read_header(Session& s, View bytes, const std::string& name) {
  check_chunks(bytes, name);
  s.input = bytes;
  png_set_read_fn(s.png, &s, Session::take);
  png_set_user_limits(s.png, 0x7fffffff, 0x7fffffff);  // check_size decides
  png_set_chunk_malloc_max(s.png, kTextLimit);
  png_set_chunk_cache_max(s.png, 256);
  if (!guarded(s, [&] { png_read_info(s.png, s.info); })) broken(name, "broken PNG: " + s.error);
}

// To the end of the file, so that the checksums of the pixels are verified.
bool read_pixels(Session& s, png_bytepp rows) {
  return guarded(s, [&] {
    png_read_image(s.png, rows);
    png_read_end(s.png, nullptr);
  });
}

}  // namespace

Raster decode_png(View bytes, const std::string& name) {
  Session s(false);
  read_header(s, bytes, name);
  const int64_t width = png_get_image_width(s.png, s.info), height = png_get_image_height(s.png, s.info);
  const int64_t bits = int64_t{png_get_channels(s.png, s.info)} * png_get_bit_depth(s.png, s.info);
  check_size(width, height, (kDeflateRatio * int64_t(bytes.size()) + 1024) * 8 / bits, name);

  Raster out{int(width), int(height), {}, 1};
  const bool ready = guarded(s, [&] {
    png_set_expand(s.png);  // palette to RGB, 1, 2, 4 bit to 8, tRNS to alpha
    png_set_scale_16(s.png);
    png_set_gray_to_rgb(s.png);
    png_set_add_alpha(s.png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(s.png);
    png_read_update_info(s.png, s.info);
  });
  if (!ready || png_get_rowbytes(s.png, s.info) != size_t(width) * 4) broken(name, "broken PNG: " + s.error);

  out.rgba.resize(size_t(width) * height * 4);
  std::vector<png_bytep> rows(height);
  for (int64_t y = 0; y < height; ++y) rows[y] = out.rgba.data() + y * width * 4;
  if (!read_pixels(s, rows.data())) broken(name, "broken PNG: " + s.error);
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(s.png, s.info, &size, &exif)) out.orientation = exif::orientation({exif, size});
  return out;
}

Metadata png_metadata(View bytes, const std::string& name) {
  Session s(false);
  read_header(s, bytes, name);
  Metadata out;
  png_textp texts = nullptr;
  const int count = png_get_text(s.png, s.info, &texts, nullptr);
  for (int i = 0; i < count; ++i) {
    std::string* field = !std::strcmp(texts[i].key, "parameters") ? &out.parameters
                         : !std::strcmp(texts[i].key, "danqing")  ? &out.json
                                                                  : nullptr;
    if (!field) continue;
    const bool international = texts[i].compression >= PNG_ITXT_COMPRESSION_NONE;
    const std::string_view text(texts[i].text, international ? texts[i].itxt_length : texts[i].text_length);
    if (international) {
      *field = unicode::clean(text);
    } else {
      std::u32string latin1;
      for (unsigned char c : text) latin1 += c;
      *field = unicode::to_utf8(latin1);
    }
  }
  return out;
}

namespace {

// A text chunk and the strings it points to.
struct Text {
  std::string key, value;
  bool latin1 = false;

  Text(std::string k, const std::string& utf8) : key(std::move(k)), value(unicode::clean(utf8)) {
    const std::u32string text = unicode::from_utf8(value);
    latin1 = std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 256; });
    if (latin1) value.assign(text.begin(), text.end());
  }
  png_text chunk() {
    png_text out{};
    out.compression = latin1 ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    out.key = key.data();
    out.text = value.data();
    (latin1 ? out.text_length : out.itxt_length) = value.size();
    return out;
  }
};

}  // namespace

Bytes encode_png(const Image& image, const Metadata& metadata, const WriteOptions&) {
  Session s(true);
  std::vector<Text> texts;
  if (!metadata.parameters.empty()) texts.emplace_back("parameters", metadata.parameters);
  if (!metadata.json.empty()) texts.emplace_back("danqing", metadata.json);
  std::vector<png_text> chunks;
  for (Text& text : texts) chunks.push_back(text.chunk());

  png_set_write_fn(s.png, &s, Session::give, Session::flush);
  const uint8_t* pixels = image.rgb.data();
  const bool done = guarded(s, [&] {
    png_set_user_limits(s.png, 0x7fffffff, 0x7fffffff);
    png_set_IHDR(s.png, s.info, image.width, image.height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!chunks.empty()) png_set_text(s.png, s.info, chunks.data(), int(chunks.size()));
    png_write_info(s.png, s.info);
    for (int y = 0; y < image.height; ++y) png_write_row(s.png, pixels + size_t{3} * y * image.width);
    png_write_end(s.png, nullptr);
  });
  if (!done) broken("PNG", s.error);
  return std::move(s.output);
}

}  // namespace danqing::codec
