// GroupNorm on channels-last pictures, with the shift before it and SiLU after it. Bound by memory: one pass for the
// statistics, one to apply, both over chunks of rows whose size does not depend on the number of threads. Sums are of
// differences from a chunk's first row, in f32 within a chunk (a few hundred rows) and in double beyond: a large mean
// costs no digits of the variance.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "run/cpu/cpu.h"
#include "run/cpu/facts.h"
#include "run/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/group_norm.cpp"
#include <hwy/foreach_target.h>

#include "run/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace danqing::cpu::HWY_NAMESPACE {
namespace {

// Adds kRows rows of differences from `centre`; sums and squares have room for whole vectors.
template <size_t kRows, class T>
HWY_INLINE void add_rows(const T* x, size_t channels, const float* centre, float* sums, float* squares) {
  for (size_t c = 0; c < channels; c += kLanes) {
    const Vector middle = load(centre + c);
    Vector sum = load(sums + c), square = load(squares + c);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      const T* at = x + r * channels + c;
      const Vector d = hn::Sub(c + kLanes <= channels ? load(at) : load_part(at, channels - c), middle);
      sum = hn::Add(sum, d), square = hn::MulAdd(d, d, square);
    }
    store(sum, sums + c), store(square, squares + c);
  }
}

void add_chunk(DType type, const void* from, size_t rows, size_t channels, float* centre, float* sums, float* squares) {
  with_type(type, from, [&](const auto* x) HWY_ATTR {
    map(channels, centre, Identity(), x);
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) add_rows<4>(x + r * channels, channels, centre, sums, squares);
    for (; r < rows; ++r) add_rows<1>(x + r * channels, channels, centre, sums, squares);
  });
}

// out = f((x - centre) * scale + offset)
template <class T, class F>
void apply_rows(const T* x, T* out, size_t rows, size_t channels, const float* centre, const float* scale,
                const float* offset, F f) {
  for (size_t r = 0; r < rows; ++r)
    map(
        channels, out + r * channels,
        [&](Vector v, Vector c, Vector s, Vector o) HWY_ATTR { return f(hn::MulAdd(hn::Sub(v, c), s, o)); },
        x + r * channels, centre, scale, offset);
}

void apply_chunk(DType type, bool silu, const void* from, void* to, size_t rows, size_t channels, const float* centre,
                 const float* scale, const float* offset) {
  with_type(type, from, [&]<class T>(const T* x) HWY_ATTR {
    T* out = static_cast<T*>(to);
    silu ? apply_rows(x, out, rows, channels, centre, scale, offset, Silu())
         : apply_rows(x, out, rows, channels, centre, scale, offset, Identity());
  });
}

}  // namespace
}  // namespace danqing::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::cpu {

HWY_EXPORT(add_chunk);
HWY_EXPORT(apply_chunk);

namespace {

// Mean and sum of squared differences from it, of a number of values that the holder knows.
struct Moments {
  double mean = 0, squares = 0;
};

class GroupNormKernel : public Kernel {
 public:
  GroupNormKernel(const GroupNorm& op, const Site& site) : op_(op), threads_(site.ways.threads) {
    require_type(site.in[0], {DType::f32, DType::bf16});
    for (size_t i = 1; i < site.in.size(); ++i) require_type(site.in[i], {DType::f32});
    const Shape& x = site.in[0].shape;
    images_ = x[0], channels_ = x.back(), rows_ = x.rows() / images_;
    shifts_ = op.has_shift ? site.in[3].shape[0] : 0;
    chunk_ = std::clamp<int64_t>(65536 / channels_, 1, 512);
    chunks_ = (rows_ + chunk_ - 1) / chunk_;
    padded_ = (channels_ + 63) / 64 * 64;
    const int64_t moments = images_ * chunks_ * op.groups * static_cast<int64_t>(sizeof(Moments));
    facts_ = plain_facts(site, Bytes(moments + floats(3 * padded_ * threads_) + floats(3 * padded_ * images_)));
  }
  NodeFacts facts() const override { return facts_; }

  void run(const KernelArguments& a) override {
    auto* moments = static_cast<Moments*>(a.scratch);
    auto* scales = reinterpret_cast<float*>(moments + images_ * chunks_ * op_.groups);  // [images, 3, padded]
    float* slices = scales + 3 * padded_ * images_;                                     // [threads, 3, padded]
    const auto* x = static_cast<const std::byte*>(a.in[0].data);
    auto* out = static_cast<std::byte*>(a.out.data);
    const DType type = a.out.type.dtype;
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for
      for (int64_t i = 0; i < images_ * chunks_; ++i)
        measure(a, i / chunks_, x + bytes_of(type, start(i) * channels_), size(i),
                slices + omp_get_thread_num() * 3 * padded_, moments + i * op_.groups);
#pragma omp for
      for (int64_t image = 0; image < images_; ++image)
        settle(a, image, moments + image * chunks_ * op_.groups, scales + image * 3 * padded_);
#pragma omp for
      for (int64_t i = 0; i < images_ * chunks_; ++i) {
        const int64_t from = bytes_of(type, start(i) * channels_);
        const float* centre = scales + i / chunks_ * 3 * padded_;
        HWY_DYNAMIC_DISPATCH(apply_chunk)
        (type, op_.silu, x + from, out + from, static_cast<size_t>(size(i)), static_cast<size_t>(channels_), centre,
         centre + padded_, centre + 2 * padded_);
      }
    }
  }

 private:
  static int64_t floats(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }
  // Of chunk i of all images' chunks: its first row (of all rows) and how many it has.
  int64_t start(int64_t i) const { return i / chunks_ * rows_ + i % chunks_ * chunk_; }
  int64_t size(int64_t i) const { return std::min(chunk_, rows_ - i % chunks_ * chunk_); }
  const float* shift_of(const KernelArguments& a, int64_t image) const {
    if (!op_.has_shift) return nullptr;
    return static_cast<const float*>(a.in[3].data) + image * shifts_ / images_ * channels_;
  }

  // One chunk's moments, a group each. The shift moves a channel's mean and nothing else.
  void measure(const KernelArguments& a, int64_t image, const void* x, int64_t rows, float* slice,
               Moments* moments) const {
    float *centre = slice, *sums = slice + padded_, *squares = slice + 2 * padded_;
    std::fill_n(slice, 3 * padded_, 0.0f);
    HWY_DYNAMIC_DISPATCH(add_chunk)
    (a.in[0].type.dtype, x, static_cast<size_t>(rows), static_cast<size_t>(channels_), centre, sums, squares);
    const float* shift = shift_of(a, image);
    const int64_t width = channels_ / op_.groups;
    const double share = 1.0 / static_cast<double>(rows), part = 1.0 / static_cast<double>(width);
    const auto mean_of = [&](int64_t c) { return (shift ? shift[c] : 0.0) + centre[c] + sums[c] * share; };
    for (int64_t g = 0; g < op_.groups; ++g) {
      Moments m;
      for (int64_t c = g * width; c < (g + 1) * width; ++c) m.mean += mean_of(c) * part;
      for (int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double sum = sums[c], apart = mean_of(c) - m.mean;
        m.squares += squares[c] - sum * sum * share + static_cast<double>(rows) * apart * apart;
      }
      moments[g] = m;
    }
  }

  // Joins an image's chunks in order and turns their moments into (x - centre) * scale + offset; what
  // rounding takes from the centre goes into the offset.
  void settle(const KernelArguments& a, int64_t image, const Moments* moments, float* centre) const {
    const auto *weight = static_cast<const float*>(a.in[1].data), *bias = static_cast<const float*>(a.in[2].data);
    const float* shift = shift_of(a, image);
    const int64_t width = channels_ / op_.groups;
    for (int64_t g = 0; g < op_.groups; ++g) {
      Moments all;
      double count = 0;
      for (int64_t i = 0; i < chunks_; ++i) {
        const Moments& m = moments[i * op_.groups + g];
        const auto more = static_cast<double>(size(i) * width);
        const double apart = m.mean - all.mean, share = more / (count + more);
        all.mean += apart * share, all.squares += m.squares + apart * apart * count * share, count += more;
      }
      const double rate = 1 / std::sqrt(all.squares / count + static_cast<double>(op_.eps));
      for (int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double middle = all.mean - (shift ? shift[c] : 0.0), scale = weight[c] * rate;
        centre[c] = static_cast<float>(middle);
        centre[padded_ + c] = static_cast<float>(scale);
        centre[2 * padded_ + c] = static_cast<float>(bias[c] + (centre[c] - middle) * scale);
      }
    }
  }

  GroupNorm op_;
  int threads_;
  int64_t images_ = 0, rows_ = 0, channels_ = 0, shifts_ = 0;
  int64_t chunk_ = 0, chunks_ = 0;  // rows of a chunk, chunks of an image
  int64_t padded_ = 0;              // channels, room for whole vectors
  NodeFacts facts_;
};

}  // namespace

std::unique_ptr<Kernel> make(const GroupNorm& op, const Site& site) {
  return std::make_unique<GroupNormKernel>(op, site);
}

}  // namespace danqing::cpu
#endif  // HWY_ONCE
