// Any bytes as a torch checkpoint: first byte even: the zip or stream form as its content says; odd: a bare pickle as
// the data.pkl would hold it. An Error, or tensors that lie inside the file.
#include "weights/pickle.h"
#include "weights/reader_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace danqing;
  if (size == 0) return 0;
  const bool bare = *data++ % 2 == 1;
  --size;
  File file = fuzz_file(data, size);
  try {
    if (bare) {
      ByteReader in(file, 0, size, "pickle");
      read_pickle(in);
      return 0;
    }
    const auto c = Checkpoint::open(std::move(file));
    for (const TensorInfo& t : c.tensors()) {
      if (t.offset > size || (!t.strides && t.bytes > size - t.offset) || t.bytes > size) std::abort();
      std::vector<std::byte> out(t.bytes);
      c.read(t, out);
    }
  } catch (const Error&) {
  }
  return 0;
}
