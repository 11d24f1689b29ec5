// Ops that only move bytes: Concat, Slice, Rows, Select. Each is a copy of rows between two strides.
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

std::unique_ptr<Kernel> make(const Concat&, const Site& site) {
  const auto moves = [](const KernelArguments& a, auto move) {
    const int64_t to_stride = row_bytes(a.out.type);
    std::byte* to = bytes_to(a.out);
    for (const Tensor& t : a.in) {
      const int64_t width = row_bytes(t.type);
      move({bytes(t), to, t.type.shape.rows(), width, width, to_stride});
      to += width;
    }
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
