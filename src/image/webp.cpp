// WebP by libwebp: the demuxer gives the first frame of still and animated files alike, the muxer adds EXIF.
#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <cstring>
#include <memory>

#include "base/error.h"
#include "image/codec.h"
#include "image/exif.h"

namespace danqing::codec {
namespace {

// A lossless WebP of one colour takes some twenty bytes at any size, so the length bounds nothing by itself.
constexpr int64_t kFreePixels = int64_t{16} << 20, kPixelsAByte = 4096;

template <auto destroy>
struct Destroy {
  void operator()(auto* p) const { destroy(p); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, Destroy<WebPDemuxDelete>>;

Demuxer open(View bytes, const std::string& name) {
  const WebPData data{bytes.data(), bytes.size()};
  Demuxer demuxer(WebPDemux(&data));
  if (!demuxer) broken(name, "broken WebP: its chunks do not fit together or the file ends early");
  return demuxer;
}

Bytes exif_of(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  Bytes out;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
    out.assign(chunk.chunk.bytes, chunk.chunk.bytes + chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  return out;
}

}  // namespace

Raster decode_webp(View bytes, const std::string& name) {
  const Demuxer demuxer = open(bytes, name);
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  check_size(width, height, kFreePixels + kPixelsAByte * int64_t(bytes.size()), name);
  WebPIterator frame;
  if (!WebPDemuxGetFrame(demuxer.get(), 1, &frame)) broken(name, "broken WebP: no frame in it");
  const std::unique_ptr<WebPIterator, Destroy<WebPDemuxReleaseIterator>> release(&frame);
  // The demuxer has checked this for whole files; a frame beyond its canvas would be written beyond the picture.
  if (!frame.complete || frame.x_offset < 0 || frame.y_offset < 0 || frame.x_offset + frame.width > width ||
      frame.y_offset + frame.height > height) {
    broken(name, "broken WebP: its first frame is not whole or lies outside the picture");
  }
  Raster out{int(width), int(height), Bytes(size_t(width) * height * 4), exif::orientation(exif_of(demuxer.get()))};
  uint8_t* first = out.rgba.data() + 4 * (frame.y_offset * width + frame.x_offset);  // the rest stays transparent
  const size_t room = out.rgba.data() + out.rgba.size() - first;
  if (!WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, first, room, int(4 * width))) {
    broken(name, "broken WebP: its pixels cannot be decoded");
  }
  return out;
}

Metadata webp_metadata(View bytes, const std::string& name) { return exif::metadata(exif_of(open(bytes, name).get())); }

namespace {

Bytes pixels_as_webp(const Image& image, const WriteOptions& options) {
  WebPConfig config;
  WebPPicture picture;
  WebPMemoryWriter writer;
  if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
    broken("WebP", "another version of libwebp than built for");
  WebPMemoryWriterInit(&writer);
  const std::unique_ptr<WebPPicture, Destroy<WebPPictureFree>> free_picture(&picture);
  const std::unique_ptr<WebPMemoryWriter, Destroy<WebPMemoryWriterClear>> free_writer(&writer);
  config.quality = float(options.quality);
  config.lossless = options.quality >= 100;
  config.exact = 1;
  if (config.lossless) config.quality = 75;  // there: effort
  picture.use_argb = config.lossless;
  picture.width = image.width;
  picture.height = image.height;
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  if (!WebPPictureImportRGB(&picture, image.rgb.data(), 3 * image.width) || !WebPEncode(&config, &picture)) {
    broken("WebP", "cannot be encoded (libwebp error " + std::to_string(picture.error_code) + ")");
  }
  return Bytes(writer.mem, writer.mem + writer.size);
}

}  // namespace

Bytes encode_webp(const Image& image, const Metadata& metadata, const WriteOptions& options) {
  if (image.width > WEBP_MAX_DIMENSION || image.height > WEBP_MAX_DIMENSION) {
    throw Error(Fault::request, "a WebP is at most 16383 pixels wide and high, the picture is " +
                                    std::to_string(image.width) + " x " + std::to_string(image.height));
  }
  const Bytes pixels = pixels_as_webp(image, options);
  const std::string exif = exif::make(metadata);
  if (exif.empty()) return pixels;
  const std::unique_ptr<WebPMux, Destroy<WebPMuxDelete>> mux(WebPMuxNew());
  const WebPData picture{pixels.data(), pixels.size()};
  const WebPData chunk{reinterpret_cast<const uint8_t*>(exif.data()), exif.size()};
  WebPData whole{};
  if (WebPMuxSetImage(mux.get(), &picture, 0) != WEBP_MUX_OK ||
      WebPMuxSetChunk(mux.get(), "EXIF", &chunk, 0) != WEBP_MUX_OK ||
      WebPMuxAssemble(mux.get(), &whole) != WEBP_MUX_OK) {
    WebPDataClear(&whole);
    broken("WebP", "its metadata cannot be joined to it");
  }
  Bytes out(whole.bytes, whole.bytes + whole.size);
  WebPDataClear(&whole);
  return out;
}

}  // namespace danqing::codec
