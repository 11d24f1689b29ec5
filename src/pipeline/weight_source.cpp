#include "pipeline/weight_source.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "weights/convert.h"

namespace danqing {

namespace {

// What a loop over threads must not throw, kept until it ends.
class Failure {
 public:
  template <class F>
  void guard(F&& work) {
    try {
      work();
    } catch (...) {
#pragma omp critical(danqing_weight_failure)
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

// Rows [first, first + count) of a tensor into `out`: threads read and convert runs of rows side by side, each in its
// own share of the block, so that disk, conversion and page faults overlap.
void read_rows(const Checkpoint& checkpoint, const TensorInfo& t, int64_t first, int64_t count, DType to,
               std::span<std::byte> out, std::span<std::byte> block, int threads) {
  const int64_t rows = std::max<int64_t>(1, t.shape.rank() ? t.shape[0] : 1);
  const auto row_bytes = std::max<int64_t>(1, static_cast<int64_t>(t.bytes) / rows);
  const int64_t row_values = t.shape.count() / rows;
  int64_t shares = threads;
  if (static_cast<int64_t>(block.size()) / shares < row_bytes) shares = 1;
  const int64_t share = static_cast<int64_t>(block.size()) / shares, at_once = share / row_bytes;
  if (at_once == 0)
    throw Error(Fault::file, checkpoint.path().filename().string() + ": a row of \"" + t.name + "\" has " +
                                 to_string(Bytes(row_bytes)) + "; danqing reads rows of at most " +
                                 to_string(Bytes(share)));
  Failure failure;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(shares))
  for (int64_t done = 0; done < count; done += at_once) {
    failure.guard([&] {
      const int64_t n = std::min(at_once, count - done);
      const auto raw =
          block.subspan(static_cast<size_t>(omp_get_thread_num() * share), static_cast<size_t>(n * row_bytes));
      checkpoint.read_rows(t, first + done, n, raw);
      const auto target = out.subspan(static_cast<size_t>(bytes_of(to, done * row_values)),
                                      static_cast<size_t>(bytes_of(to, n * row_values)));
      convert(t.dtype, raw, to, target, n * row_values);
    });
  }
  failure.rethrow();
}

// Columns [first, first + count) of a matrix as rows. Half of the block holds rows of the file, half one row converted.
void read_columns(const Checkpoint& checkpoint, const TensorInfo& t, int64_t first, int64_t count, DType to,
                  std::span<std::byte> out, std::span<std::byte> block) {
  const int64_t height = t.shape[0], width = t.shape[1];
  const auto half = block.size() / 2, size = static_cast<size_t>(bytes_of(to, 1));
  const auto row = static_cast<size_t>(bytes_of(t.dtype, width)), converted_row = static_cast<size_t>(width) * size;
  if (bytes_of(to, 2) != 2 * bytes_of(to, 1) || row > half || converted_row > half)
    throw Error(Fault::file, checkpoint.path().filename().string() + ": \"" + t.name + "\" " + to_string(t.shape) +
                                 " is stored transposed and cannot be read as " + std::string(name(to)));
  const auto converted = block.subspan(half, converted_row);
  const auto at_once = static_cast<int64_t>(half / std::max<size_t>(1, row));
  for (int64_t done = 0; done < height; done += at_once) {
    const int64_t n = std::min(at_once, height - done);
    const auto raw = block.first(static_cast<size_t>(n) * row);
    checkpoint.read_rows(t, done, n, raw);
    for (int64_t r = 0; r < n; ++r) {
      convert(t.dtype, raw.subspan(static_cast<size_t>(r) * row, row), to, converted, width);
      for (int64_t c = 0; c < count; ++c)
        std::memcpy(&out[static_cast<size_t>(c * height + done + r) * size],
                    &converted[static_cast<size_t>(first + c) * size], size);
    }
  }
}

// A parameter's rows [begin, begin + count) as `to`.
void read_parameter(const Layout& layout, const Located& located, int64_t begin, int64_t count, DType to,
                    std::span<std::byte> out, std::span<std::byte> block, int threads) {
  if (located.transposed)
    read_columns(layout.checkpoint(), *located.tensor, begin, count, to, out, block);
  else
    read_rows(layout.checkpoint(), *located.tensor, located.begin + begin, count, to, out, block, threads);
}

}  // namespace

WeightSource weight_source(const Layout& layout, const Adapters& adapters, int threads) {
  return [&layout, &adapters, threads](const Weight& weight, const TensorType& type, std::span<std::byte> out,
                                       std::span<std::byte> block) {
    size_t at = 0;
    for (const WeightPart& part : weight.parts) {
      const auto located = layout.locate(part.name);
      DANQING_CHECK(located.has_value());  // require_complete has seen it
      const Shape shape = located->shape();
      const int64_t rows = std::max<int64_t>(1, shape.rank() ? shape[0] : 1), width = shape.count() / rows;
      const int64_t begin = part.end >= 0 ? part.begin : 0, count = (part.end >= 0 ? part.end : rows) - begin;
      const auto rows_out = out.subspan(at, static_cast<size_t>(bytes_of(type.dtype, width * count)));
      at += rows_out.size();
      if (!adapters.changes(part.name)) {
        read_parameter(layout, *located, begin, count, type.dtype, rows_out, block, threads);
        continue;
      }
      const auto whole = block.last(static_cast<size_t>(4 * shape.count()));
      const std::span values(reinterpret_cast<float*>(whole.data()), static_cast<size_t>(shape.count()));
      read_parameter(layout, *located, 0, rows, DType::f32, whole, block.first(block.size() - whole.size()), threads);
      adapters.apply(part.name, values, rows);
      from_f32(values.subspan(static_cast<size_t>(begin * width), static_cast<size_t>(count * width)), type.dtype,
               rows_out);
    }
    DANQING_CHECK(at == out.size());
  };
}

}  // namespace danqing
