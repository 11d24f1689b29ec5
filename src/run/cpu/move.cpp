// Ops that only move bytes: Concat, Repeat, Patchify, Unpatchify, Slice, Rows, Select. Each is made of copies of rows
// between two strides.
#include <algorithm>
#include <cstring>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"

namespace danqing::cpu {

namespace {

// `count` rows of `width` bytes each.
struct RowCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0, width = 0, from_stride = 0, to_stride = 0;
};

// Parts rows, and rows of more than a block's width, so that few long rows keep all threads busy too.
void copy(const RowCopy& c, int threads) {
  constexpr int64_t kBlock = int64_t{1} << 16;
  const int64_t height = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, c.width));
  const int64_t columns = (c.width + kBlock - 1) / kBlock, tiles = (c.count + height - 1) / height * columns;
#pragma omp parallel for num_threads(threads)
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = tile / columns * height, x = tile % columns * kBlock;
    const auto bytes = static_cast<size_t>(std::min(kBlock, c.width - x));
    for (int64_t row = first; row < std::min(first + height, c.count); ++row)
      std::memcpy(c.to + row * c.to_stride + x, c.from + row * c.from_stride + x, bytes);
  }
}

const std::byte* bytes(const Tensor& t) { return static_cast<const std::byte*>(t.data); }
std::byte* bytes_to(const Tensor& t) { return static_cast<std::byte*>(t.data); }
int64_t row_bytes(const TensorType& t) { return bytes_of(t.dtype, t.shape.back()); }

// F(const KernelArguments&, copy of one RowCopy) says which copies an op is made of.
template <class F>
class MoveKernel : public Kernel {
 public:
  MoveKernel(const Site& site, F moves) : facts_(plain_facts(site)), threads_(site.ways.threads), moves_(moves) {}
  NodeFacts facts() const override { return facts_; }
  void run(const KernelArguments& a) override {
    moves_(a, [this](const RowCopy& c) { copy(c, threads_); });
  }

 private:
  NodeFacts facts_;
  int threads_;
  F moves_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Concat& op, const Site& site) {
  const int axis = op.axis < 0 ? site.node.type.shape.rank() - 1 : op.axis;
  const auto moves = [axis](const KernelArguments& a, auto move) {
    const Shape& out = a.out.type.shape;
    const int64_t images = axis > 0 ? out[0] : 1;
    int64_t lines = 1;  // of an image: what stands before the axis
    for (int i = 1; i < axis; ++i) lines *= out[i];
    const int64_t to_image = size_of(a.out.type).value / images, to_stride = to_image / lines;
    std::byte* to = bytes_to(a.out);
    for (const Tensor& t : a.in) {
      const int64_t rows = axis > 0 ? t.type.shape[0] : 1, image = size_of(t.type).value / rows, width = image / lines;
      if (rows == images) {
        move({bytes(t), to, images * lines, width, width, to_stride});
      } else {
        for (int64_t n = 0; n < images; ++n)
          move({bytes(t) + n * rows / images * image, to + n * to_image, lines, width, width, to_stride});
      }
      to += width;
    }
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

std::unique_ptr<Kernel> make(const Repeat&, const Site& site) {
  const auto moves = [](const KernelArguments& a, auto move) {
    const int64_t width = size_of(a.in[0].type).value;
    move({bytes(a.in[0]), bytes_to(a.out), size_of(a.out.type).value / width, width, 0, width});
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

namespace {

// Calls f(offset in the picture, offset in the tokens, count of pieces, their width in bytes) for every line of every
// picture: a piece is a patch's part of the line. From piece to piece the picture goes on by the width, the tokens by
// side times the width.
template <class F>
void for_lines(const TensorType& picture, int64_t side, F f) {
  const Shape& s = picture.shape;
  const int64_t width = bytes_of(picture.dtype, side * s[3]), count = s[2] / side, line = count * width;
  for (int64_t y = 0; y < s[0] * s[1]; ++y) f(y * line, y / side * side * line + y % side * width, count, width);
}

}  // namespace

std::unique_ptr<Kernel> make(const Patchify& op, const Site& site) {
  const auto moves = [side = op.side](const KernelArguments& a, auto move) {
    for_lines(a.in[0].type, side, [&](int64_t picture, int64_t tokens, int64_t count, int64_t width) {
      move({bytes(a.in[0]) + picture, bytes_to(a.out) + tokens, count, width, width, side * width});
    });
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

std::unique_ptr<Kernel> make(const Unpatchify& op, const Site& site) {
  const auto moves = [side = op.side](const KernelArguments& a, auto move) {
    for_lines(a.out.type, side, [&](int64_t picture, int64_t tokens, int64_t count, int64_t width) {
      move({bytes(a.in[0]) + tokens, bytes_to(a.out) + picture, count, width, side * width, width});
    });
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

std::unique_ptr<Kernel> make(const Slice& op, const Site& site) {
  const auto moves = [begin = op.begin](const KernelArguments& a, auto move) {
    const TensorType& from = a.in[0].type;
    const int64_t width = row_bytes(a.out.type);
    move({bytes(a.in[0]) + bytes_of(from.dtype, begin), bytes_to(a.out), from.shape.rows(), width, row_bytes(from),
          width});
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

std::unique_ptr<Kernel> make(const Rows& op, const Site& site) {
  const auto moves = [begin = op.begin](const KernelArguments& a, auto move) {
    const Shape& from = a.in[0].type.shape;
    const int64_t row = row_bytes(a.in[0].type), width = a.out.type.shape[1] * row;
    move({bytes(a.in[0]) + begin * row, bytes_to(a.out), from[0], width, from[1] * row, width});
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

std::unique_ptr<Kernel> make(const Select& op, const Site& site) {
  const auto moves = [by = op.by](const KernelArguments& a, auto move) {
    const int64_t width = size_of(a.out.type).value, index = a.counters[by];
    DANQING_CHECK(index >= 0 && (index + 1) * width <= size_of(a.in[0].type).value);
    move({bytes(a.in[0]) + index * width, bytes_to(a.out), 1, width, 0, 0});
  };
  return std::make_unique<MoveKernel<decltype(moves)>>(site, moves);
}

}  // namespace danqing::cpu
