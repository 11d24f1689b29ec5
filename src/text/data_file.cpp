#include "text/data_file.h"

#include <zlib.h>

#include <memory>

#include "base/error.h"

namespace danqing {

std::string read_gzip(const std::filesystem::path& path) {
  constexpr size_t kLimit = size_t{64} << 20;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    throw Error(Fault::file,
                path.string() + ": cannot be opened; the vocabulary files belong to danqing's data folder");
  if (gzdirect(file.get()) != 0) throw Error(Fault::file, path.string() + ": is not gzip-compressed");
  gzbuffer(file.get(), 1 << 17);
  std::string content;
  for (size_t used = 0;;) {
    content.resize(used + (size_t{1} << 20));
    const int got = gzread(file.get(), content.data() + used, 1 << 20);
    int state = Z_OK;
    gzerror(file.get(), &state);
    if (got < 0 || (state != Z_OK && state != Z_STREAM_END)) {
      throw Error(Fault::file, path.string() + ": the gzip data is broken or cut short");
    }
    used += static_cast<size_t>(got);
    if (used > kLimit)
      throw Error(Fault::file, path.string() + ": more than 64 MiB uncompressed, too large for a vocabulary");
    if (got == 0) return content.resize(used), content;
  }
}

}  // namespace danqing
