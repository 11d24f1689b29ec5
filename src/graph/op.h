// The closed list of operations. An op is plain data; each reader of a graph (shape, work, plan, execution) is an
// overload set over this list, so the compiler names what a new op still lacks. Layouts: pictures [N, H, W, C], tokens
// [N, L, C], weights as checkpoints hold them: linear [O, I], convolution [O, I, kh, kw].
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/units.h"

namespace danqing {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType&);  // "[1,77,768] f32"
Bytes size_of(const TensorType&);

enum class Activation : uint8_t { none, silu, gelu, gelu_tanh, quick_gelu, tanh };
enum class Combine : uint8_t { none, add, mul };  // what the epilogue does with the extra input

// A parameter's rows [begin, end) as the checkpoint holds them; end -1: all rows.
struct WeightPart {
  std::string name;
  int64_t begin = 0, end = -1;
  bool operator==(const WeightPart&) const = default;
};

struct Input {};  // given by the host, or carried over from an earlier phase by name
struct Weight {
  std::vector<WeightPart> parts;
};  // parts stacked along the first axis
// in: x [.., I], weight [O, I], bias [O] if has_bias, extra [.., O] if combine. out = combine(activation(x w^T + bias),
// extra)
struct Linear {
  bool has_bias = false;
  Activation activation = Activation::none;
  Combine combine = Combine::none;
};
// in: x [N, H, W, I], weight [O, I, k, k], bias [O] if has_bias, extra [N, H', W', O] if residual. Padding: top/left
// `pad`, bottom/right `pad_end`. upsample: x is first doubled by nearest neighbour (never stored).
struct Conv2d {
  int stride = 1, pad = 0, pad_end = 0;
  bool has_bias = false, residual = false, upsample = false;
  Activation activation = Activation::none;
};
// in: x [N, .., C], weight [C], bias [C], shift [K, C] if has_shift (added to x first; image n takes row n*K/N).
struct GroupNorm {
  int groups = 32;
  float eps = 1e-5f;
  bool silu = false, has_shift = false;
};
struct LayerNorm {
  float eps = 1e-5f;
  bool affine = true;
};  // in: x [.., C], weight [C], bias [C] if affine
struct RmsNorm {
  float eps = 1e-6f;
};  // in: x [.., C], weight [C]
// in: q [N, Lq, heads*d], k and v [M, Lk, kv_heads*d]; M divides N, image n reads row n*M/N. Scale 1/sqrt(d).
// softmax in f32; the score matrix is never held. has_lengths: lengths i32 [M], row m has only its first lengths[m]
// keys.
struct Attention {
  int heads = 1, kv_heads = 1;
  bool causal = false, has_lengths = false;
};
struct Add {};  // in: a, b; b's shape is a trailing part of a's shape
struct Mul {};  // the same with a product
// in: x [N, .., C], factor [K, C] (image n takes row n*K/N), residual like x if so. out = x * factor (+ residual)
struct Modulate {
  bool residual = false;
};
// in: x [N, L, heads*d], table f32 [K, L, 2*d] (image n takes row n*K/N): for every token d factors of the value and d
// of its partner, which is its neighbour in a pair, or with `halves` the value d/2 away. Rotary positions (Su et al.,
// RoFormer, 2021) when they are cosines and signed sines.
struct Rope {
  bool halves = false;
};
struct Unary {
  Activation kind = Activation::silu;
};
struct Scale {
  float factor = 1, offset = 0;
};  // x * factor + offset
// Along an axis, -1 the last. Before that axis the inputs agree, except that one may have fewer images (the first
// axis): K divides N, image n takes row n*K/N.
struct Concat {
  int axis = -1;
};
struct Repeat {
  Shape to;
};  // in: a trailing part of `to`, which is filled with it
// Squares of pixels as tokens and back: [N, H, W, C] to [N, (H/side)*(W/side), side*side*C], inside a token by rows.
struct Patchify {
  int64_t side = 2;
};
struct Unpatchify {
  int64_t side = 2, height = 0, width = 0;
};  // height, width: of the picture
struct Upsample {
  int64_t height = 0, width = 0;
};  // x [N, H, W, C] to [N, height, width, C] by nearest neighbour
struct Reshape {
  Shape to;
};  // the same bytes under another shape
struct Slice {
  int64_t begin = 0, end = 0;
};  // along the last axis
struct Rows {
  int64_t begin = 0, end = 0;
};                    // of axis 1 of [N, L, C]
struct Embedding {};  // in: ids i32 [N, L], table [V, C]
struct Sinusoid {
  int64_t dim = 0;
  bool flip = true;
  float max_period = 10000;
};  // in: t f32 [N]; flip: cosines first
// Rows picked while running: in [n*count, ..], out [count, ..] at index `by` (see Counter), so that what is constant
// over steps is computed once for all of them.
enum class Counter : uint8_t { step, half };
struct Select {
  Counter by = Counter::step;
  int64_t count = 1;
};
struct Cast {
  DType to = DType::f32;
};

using Op = std::variant<Input, Weight, Linear, Conv2d, GroupNorm, LayerNorm, RmsNorm, Attention, Add, Mul, Modulate,
                        Rope, Unary, Scale, Concat, Repeat, Patchify, Unpatchify, Upsample, Reshape, Slice, Rows,
                        Embedding, Sinusoid, Select, Cast>;

std::string_view name_of(const Op&);  // "conv2d"
std::string describe(const Op&);      // "conv2d stride 2 +bias +silu": what the printer shows

// The type of the result. CHECKs that the inputs agree: models are checked against checkpoints before they are built.
TensorType result(const Op&, std::span<const TensorType> in);

// What an op costs, whatever the machine. Products count 2 a multiply-add (matrix, convolution, attention); `vector`
// counts other arithmetic, one a value touched and operation; bytes count each input and the output once.
struct Work {
  Flops products, vector;
  Bytes read, written;
  Work& operator+=(const Work& o) {
    products += o.products, vector += o.vector, read += o.read, written += o.written;
    return *this;
  }
};
Work work(const Op&, std::span<const TensorType> in, const TensorType& out);

// Helper for overload sets: std::visit(Overload{[](const Linear&) {...}, ...}, op).
template <class... F>
struct Overload : F... {
  using F::operator()...;
};

}  // namespace danqing
