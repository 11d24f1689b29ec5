// JPEG by libjpeg-turbo. Errors come by longjmp, as in png.cpp: no destructors inside `guarded`.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
// clang-format off: jpeglib.h needs <cstdio> before it, jerror.h needs jpeglib.h
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include "base/error.h"
#include "image/codec.h"
#include "image/exif.h"

namespace danqing::codec {
namespace {

constexpr int kSegment = 65533;  // the most one APPn segment holds
constexpr int kMaxScans = 100;   // of a progressive picture; each costs a pass over all pixels
constexpr int64_t kPixelsAByte = 8 * 64;
constexpr std::string_view kExifTag{"Exif\0\0", 6}, kPieceTag{"danqing\0", 8};
constexpr int kPieceMarker = JPEG_APP0 + 11;

struct Errors : jpeg_error_mgr {
  jmp_buf landing;
  char text[JMSG_LENGTH_MAX] = "";

  static Errors* of(j_common_ptr c) { return static_cast<Errors*>(c->err); }
  Errors() {
    jpeg_std_error(this);
    error_exit = [](j_common_ptr c) {
      c->err->format_message(c, of(c)->text);
      std::longjmp(of(c)->landing, 1);
    };
    emit_message = [](j_common_ptr c, int level) {
      // A file that ends early is only a warning there, and the rest would come out grey.
      if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF) c->err->error_exit(c);
    };
    output_message = [](j_common_ptr) {};
  }
};

struct Progress : jpeg_progress_mgr {
  Progress() {
    progress_monitor = [](j_common_ptr c) {
      if (c->is_decompressor && reinterpret_cast<j_decompress_ptr>(c)->input_scan_number > kMaxScans) {
        std::strcpy(Errors::of(c)->text, "too many scans");
        std::longjmp(Errors::of(c)->landing, 1);
      }
    };
  }
};

struct Reader {
  Errors errors;
  Progress progress;
  jpeg_decompress_struct jpeg{};
  Reader() {
    jpeg.err = &errors;
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &progress;
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg); }
  Reader(const Reader&) = delete;
};

struct Writer {
  Errors errors;
  jpeg_compress_struct jpeg{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  Writer() {
    jpeg.err = &errors;
    jpeg_create_compress(&jpeg);
  }
  ~Writer() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);
  }
  Writer(const Writer&) = delete;
};

template <class Body>
bool guarded(Errors& errors, Body body) {
  if (setjmp(errors.landing)) return false;
  body();
  return true;
}

void read_header(Reader& r, View bytes, const std::string& name) {
  const bool done = guarded(r.errors, [&] {
    jpeg_mem_src(&r.jpeg, bytes.data(), bytes.size());
    jpeg_save_markers(&r.jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_save_markers(&r.jpeg, kPieceMarker, 0xFFFF);
    jpeg_read_header(&r.jpeg, TRUE);
  });
  if (!done) broken(name, std::string("broken JPEG: ") + r.errors.text);
}

// The EXIF of the picture: our pieces where it has them, else the APP1 segment.
Bytes exif_of(const Reader& r) {
  Bytes exif, pieces;
  for (jpeg_saved_marker_ptr m = r.jpeg.marker_list; m; m = m->next) {
    const std::string_view text(reinterpret_cast<const char*>(m->data), m->data_length);
    if (m->marker == kPieceMarker && text.starts_with(kPieceTag)) {
      pieces.insert(pieces.end(), text.begin() + kPieceTag.size(), text.end());
    } else if (m->marker == JPEG_APP0 + 1 && text.starts_with(kExifTag) && exif.empty()) {
      exif.assign(text.begin(), text.end());
    }
  }
  return pieces.empty() ? exif : pieces;
}

void write_exif(jpeg_compress_struct& jpeg, const std::string& exif, const std::string& segment) {
  auto put = [&](int marker, const char* data, size_t n) {
    jpeg_write_marker(&jpeg, marker, reinterpret_cast<const JOCTET*>(data), unsigned(n));
  };
  if (exif.empty()) return;
  if (segment.size() <= kSegment) return put(JPEG_APP0 + 1, segment.data(), segment.size());
  const size_t room = kSegment - kPieceTag.size();
  for (size_t at = 0; at < exif.size(); at += room) {
    const size_t n = std::min(room, exif.size() - at);
    jpeg_write_m_header(&jpeg, kPieceMarker, unsigned(kPieceTag.size() + n));
    for (char c : kPieceTag) jpeg_write_m_byte(&jpeg, c);
    for (size_t i = 0; i < n; ++i) jpeg_write_m_byte(&jpeg, uint8_t(exif[at + i]));
  }
}

// Inverted CMYK (what Adobe stores) in place of the first four bytes a pixel.
void cmyk_to_rgb(Bytes& pixels, bool inverted) {
  for (size_t i = 0; i < pixels.size(); i += 4) {
    auto ink = [&](int c) { return inverted ? pixels[i + c] : 255 - pixels[i + c]; };
    const int k = ink(3);
    for (int c = 0; c < 3; ++c) pixels[i + c] = uint8_t((ink(c) * k + 127) / 255);
    pixels[i + 3] = 255;
  }
}

}  // namespace

Raster decode_jpeg(View bytes, const std::string& name) {
  Reader r;
  read_header(r, bytes, name);
  const int64_t width = r.jpeg.image_width, height = r.jpeg.image_height;
  check_size(width, height, kPixelsAByte * int64_t(bytes.size()), name);
  const bool cmyk = r.jpeg.num_components == 4;
  const bool inverted = r.jpeg.saw_Adobe_marker;

  Raster out{int(width), int(height), Bytes(size_t(width) * height * 4), exif::orientation(exif_of(r))};
  const bool done = guarded(r.errors, [&] {
    r.jpeg.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBA;
    jpeg_start_decompress(&r.jpeg);
    while (r.jpeg.output_scanline < r.jpeg.output_height) {
      JSAMPROW row = out.rgba.data() + size_t{4} * width * r.jpeg.output_scanline;
      jpeg_read_scanlines(&r.jpeg, &row, 1);
    }
  });
  if (!done) broken(name, std::string("broken JPEG: ") + r.errors.text);
  if (cmyk) cmyk_to_rgb(out.rgba, inverted);
  return out;
}

Metadata jpeg_metadata(View bytes, const std::string& name) {
  Reader r;
  read_header(r, bytes, name);
  return exif::metadata(exif_of(r));
}

Bytes encode_jpeg(const Image& image, const Metadata& metadata, const WriteOptions& options) {
  if (image.width > 65500 || image.height > 65500) {
    throw Error(Fault::request, "a JPEG is at most 65500 pixels wide and high, the picture is " +
                                    std::to_string(image.width) + " x " + std::to_string(image.height));
  }
  const std::string exif = exif::make(metadata), segment = std::string(kExifTag) + exif;
  Writer w;
  const bool done = guarded(w.errors, [&] {
    jpeg_mem_dest(&w.jpeg, &w.bytes, &w.size);
    w.jpeg.image_width = image.width;
    w.jpeg.image_height = image.height;
    w.jpeg.input_components = 3;
    w.jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&w.jpeg);
    jpeg_set_quality(&w.jpeg, options.quality, TRUE);
    if (options.quality >= 90) {  // colour at full resolution
      w.jpeg.comp_info[0].h_samp_factor = w.jpeg.comp_info[0].v_samp_factor = 1;
    }
    w.jpeg.optimize_coding = TRUE;
    jpeg_start_compress(&w.jpeg, TRUE);
    write_exif(w.jpeg, exif, segment);
    while (w.jpeg.next_scanline < w.jpeg.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(image.rgb.data()) + size_t{3} * image.width * w.jpeg.next_scanline;
      jpeg_write_scanlines(&w.jpeg, &row, 1);
    }
    jpeg_finish_compress(&w.jpeg);
  });
  if (!done) broken("JPEG", w.errors.text);
  return Bytes(w.bytes, w.bytes + w.size);
}

}  // namespace danqing::codec
