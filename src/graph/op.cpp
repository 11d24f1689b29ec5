#include "graph/op.h"

#include <algorithm>

namespace danqing {

std::string to_string(const TensorType& t) { return to_string(t.shape) + " " + std::string(name(t.dtype)); }

Bytes size_of(const TensorType& t) { return Bytes(bytes_of(t.dtype, t.shape.count())); }

std::string_view name_of(const Op& op) {
  static constexpr std::string_view names[] = {
      "input",    "weight",   "linear", "conv2d", "group_norm", "layer_norm", "rms_norm", "attention", "add",
      "mul",      "modulate", "rope",   "unary",  "scale",      "concat",     "repeat",   "patchify",  "unpatchify",
      "upsample", "reshape",  "slice",  "rows",   "embedding",  "sinusoid",   "select",   "cast"};
  static_assert(std::size(names) == std::variant_size_v<Op>);
  return names[op.index()];
}

static std::string_view name(Activation a) {
  static constexpr std::string_view names[] = {"none", "silu", "gelu", "gelu_tanh", "quick_gelu", "tanh"};
  return names[static_cast<int>(a)];
}

std::string describe(const Op& op) {
  std::string text(name_of(op));
  const auto flag = [&](bool on, std::string_view word) {
    if (on) (text += " +") += word;
  };
  const auto number = [&](std::string_view word, int64_t n) { (((text += " ") += word) += " ") += std::to_string(n); };
  std::visit(
      Overload{
          [&](const Linear& o) {
            flag(o.has_bias, "bias"), flag(o.activation != Activation::none, name(o.activation));
            flag(o.combine == Combine::add, "add"), flag(o.combine == Combine::mul, "mul");
          },
          [&](const Conv2d& o) {
            if (o.stride != 1) number("stride", o.stride);
            flag(o.upsample, "upsample"), flag(o.has_bias, "bias");
            flag(o.activation != Activation::none, name(o.activation)), flag(o.residual, "add");
          },
          [&](const GroupNorm& o) { number("groups", o.groups), flag(o.has_shift, "shift"), flag(o.silu, "silu"); },
          [&](const Attention& o) {
            number("heads", o.heads), flag(o.causal, "causal"), flag(o.has_lengths, "lengths");
          },
          [&](const Modulate& o) { flag(o.residual, "add"); },
          [&](const Rope& o) { flag(o.halves, "halves"); },
          [&](const Concat& o) {
            if (o.axis >= 0) number("axis", o.axis);
          },
          [&](const Patchify& o) { number("side", o.side); },
          [&](const Unpatchify& o) { number("side", o.side); },
          [&](const Unary& o) { (text += " ") += name(o.kind); },
          [&](const Weight& o) { (text += " ") += o.parts.front().name; },
          [](const auto&) {},
      },
      op);
  return text;
}

namespace {

using Types = std::span<const TensorType>;

Shape with_last(Shape s, int64_t last) {
  s[-1] = last;
  return s;
}

// Rows of conditioning [K, ..] for N images: image n takes row n*K/N.
bool divides(int64_t rows, int64_t images) { return rows > 0 && images % rows == 0; }

bool is_suffix(const Shape& part, const Shape& whole) {
  if (part.rank() > whole.rank()) return false;
  for (int i = 1; i <= part.rank(); ++i)
    if (part[part.rank() - i] != whole[whole.rank() - i]) return false;
  return true;
}

TensorType same(Types in) { return in[0]; }

TensorType result_of(const Input&, Types) { throw Bug("an input has no inputs to derive its type from"); }
TensorType result_of(const Weight&, Types) { throw Bug("a weight has no inputs to derive its type from"); }

TensorType result_of(const Linear& o, Types in) {
  DANQING_CHECK(in.size() == 2u + o.has_bias + (o.combine != Combine::none));
  const Shape& w = in[1].shape;
  DANQING_CHECK(w.rank() == 2 && in[0].shape.back() == w[1]);
  if (o.has_bias) DANQING_CHECK((in[2].shape == Shape{w[0]}));
  TensorType out{in[0].dtype, with_last(in[0].shape, w[0])};
  if (o.combine != Combine::none) DANQING_CHECK(in.back() == out);
  return out;
}

TensorType result_of(const Conv2d& o, Types in) {
  DANQING_CHECK(in.size() == 2u + o.has_bias + o.residual);
  const Shape &x = in[0].shape, &w = in[1].shape;
  DANQING_CHECK(x.rank() == 4 && w.rank() == 4 && x[3] == w[1] && w[2] == w[3]);
  if (o.has_bias) DANQING_CHECK((in[2].shape == Shape{w[0]}));
  const int64_t scale = o.upsample ? 2 : 1;
  const auto size = [&](int64_t n) { return (n * scale + o.pad + o.pad_end - w[2]) / o.stride + 1; };
  TensorType out{in[0].dtype, {x[0], size(x[1]), size(x[2]), w[0]}};
  DANQING_CHECK(out.shape[1] > 0 && out.shape[2] > 0);
  if (o.residual) DANQING_CHECK(in.back() == out);
  return out;
}

TensorType result_of(const GroupNorm& o, Types in) {
  DANQING_CHECK(in.size() == 3u + o.has_shift);
  const int64_t c = in[0].shape.back();
  DANQING_CHECK(c % o.groups == 0 && in[1].shape == Shape{c} && in[2].shape == Shape{c});
  if (o.has_shift)
    DANQING_CHECK(in[3].shape.rank() == 2 && in[3].shape[1] == c && in[0].shape[0] % in[3].shape[0] == 0);
  return same(in);
}

TensorType result_of(const LayerNorm& o, Types in) {
  DANQING_CHECK(in.size() == (o.affine ? 3u : 1u));
  return same(in);
}

TensorType result_of(const RmsNorm&, Types in) {
  DANQING_CHECK(in.size() == 2 && in[1].shape == Shape{in[0].shape.back()});
  return same(in);
}

TensorType result_of(const Attention& o, Types in) {
  DANQING_CHECK(in.size() == 3u + o.has_lengths);
  const Shape &q = in[0].shape, &k = in[1].shape;
  if (o.has_lengths) DANQING_CHECK((in[3] == TensorType{DType::i32, {k[0]}}));
  DANQING_CHECK(q.rank() == 3 && k.rank() == 3 && in[2].shape == k && q[0] % k[0] == 0);
  DANQING_CHECK(o.heads % o.kv_heads == 0 && q[2] % o.heads == 0 && k[2] % o.kv_heads == 0);
  DANQING_CHECK(q[2] / o.heads == k[2] / o.kv_heads);
  return same(in);
}

TensorType binary(Types in) {
  DANQING_CHECK(in.size() == 2 && is_suffix(in[1].shape, in[0].shape));
  return same(in);
}
TensorType result_of(const Add&, Types in) { return binary(in); }
TensorType result_of(const Mul&, Types in) { return binary(in); }

TensorType result_of(const Modulate& o, Types in) {
  DANQING_CHECK(in.size() == 2u + o.residual);
  const Shape &x = in[0].shape, &factor = in[1].shape;
  DANQING_CHECK(x.rank() >= 2 && factor.rank() == 2 && factor[1] == x.back() && divides(factor[0], x[0]));
  if (o.residual) DANQING_CHECK(in[2] == in[0]);
  return same(in);
}

TensorType result_of(const Rope&, Types in) {
  DANQING_CHECK(in.size() == 2);
  const Shape &x = in[0].shape, &table = in[1].shape;
  DANQING_CHECK(x.rank() == 3 && table.rank() == 3 && table[1] == x[1] && divides(table[0], x[0]));
  DANQING_CHECK(in[1].dtype == DType::f32 && table[2] % 4 == 0 && x[2] % (table[2] / 2) == 0);
  return same(in);
}

TensorType result_of(const Unary&, Types in) { return same(in); }
TensorType result_of(const Scale&, Types in) { return same(in); }

TensorType result_of(const Concat& o, Types in) {
  const int axis = o.axis < 0 ? in[0].shape.rank() - 1 : o.axis;
  DANQING_CHECK(axis < in[0].shape.rank());
  Shape whole = in[0].shape;
  int64_t sum = 0;
  for (const TensorType& t : in) {
    DANQING_CHECK(t.dtype == in[0].dtype && t.shape.rank() == whole.rank());
    for (int i = 0; i < whole.rank(); ++i)
      DANQING_CHECK(i == axis || t.shape[i] == whole[i] || (i == 0 && divides(t.shape[0], whole[0])));
    sum += t.shape[axis];
  }
  whole[axis] = sum;
  return {in[0].dtype, whole};
}

TensorType result_of(const Repeat& o, Types in) {
  DANQING_CHECK(in.size() == 1 && is_suffix(in[0].shape, o.to) && in[0].shape.count() > 0);
  return {in[0].dtype, o.to};
}

TensorType result_of(const Patchify& o, Types in) {
  const Shape& x = in[0].shape;
  DANQING_CHECK(x.rank() == 4 && o.side > 0 && x[1] % o.side == 0 && x[2] % o.side == 0);
  return {in[0].dtype, {x[0], x[1] / o.side * (x[2] / o.side), o.side * o.side * x[3]}};
}

TensorType result_of(const Unpatchify& o, Types in) {
  const Shape& x = in[0].shape;
  DANQING_CHECK(x.rank() == 3 && o.side > 0 && o.height % o.side == 0 && o.width % o.side == 0);
  DANQING_CHECK(x[1] == o.height / o.side * (o.width / o.side) && x[2] % (o.side * o.side) == 0);
  return {in[0].dtype, {x[0], o.height, o.width, x[2] / (o.side * o.side)}};
}

TensorType result_of(const Upsample& o, Types in) {
  const Shape& x = in[0].shape;
  DANQING_CHECK(x.rank() == 4 && o.height >= x[1] && o.width >= x[2]);
  return {in[0].dtype, {x[0], o.height, o.width, x[3]}};
}

TensorType result_of(const Reshape& o, Types in) {
  DANQING_CHECK(o.to.count() == in[0].shape.count());
  return {in[0].dtype, o.to};
}

TensorType result_of(const Slice& o, Types in) {
  DANQING_CHECK(o.begin >= 0 && o.begin < o.end && o.end <= in[0].shape.back());
  return {in[0].dtype, with_last(in[0].shape, o.end - o.begin)};
}

TensorType result_of(const Rows& o, Types in) {
  const Shape& x = in[0].shape;
  DANQING_CHECK(x.rank() == 3 && o.begin >= 0 && o.begin < o.end && o.end <= x[1]);
  return {in[0].dtype, {x[0], o.end - o.begin, x[2]}};
}

TensorType result_of(const Embedding&, Types in) {
  DANQING_CHECK(in.size() == 2 && in[0].dtype == DType::i32 && in[1].shape.rank() == 2);
  return {DType::f32, {in[0].shape[0], in[0].shape[1], in[1].shape[1]}};
}

TensorType result_of(const Sinusoid& o, Types in) {
  DANQING_CHECK(in[0].shape.rank() == 1 && o.dim % 2 == 0);
  return {DType::f32, {in[0].shape[0], o.dim}};
}

TensorType result_of(const Select& o, Types in) {
  Shape s = in[0].shape;
  DANQING_CHECK(s.rank() > 0 && s[0] % o.count == 0);
  s[0] = o.count;
  return {in[0].dtype, s};
}

TensorType result_of(const Cast& o, Types in) { return {o.to, in[0].shape}; }

// Work. Most ops only touch values: `per_value` operations each.
double values(const TensorType& t) { return static_cast<double>(t.shape.count()); }

Flops products_of(const Linear&, Types in, const TensorType& out) {
  return Flops(2 * values(out) * static_cast<double>(in[1].shape[1]));
}
Flops products_of(const Conv2d&, Types in, const TensorType& out) {
  const Shape& w = in[1].shape;
  return Flops(2 * values(out) * static_cast<double>(w[1] * w[2] * w[3]));
}
Flops products_of(const Attention&, Types in, const TensorType& out) {
  return Flops(4 * values(out) * static_cast<double>(in[1].shape[1]));  // counted in full, causal too
}
Flops products_of(const auto&, Types, const TensorType&) { return Flops(0); }

double activation_cost(Activation a) { return a == Activation::none ? 0 : 8; }

double per_value(const Linear& o) { return o.has_bias + activation_cost(o.activation) + (o.combine != Combine::none); }
double per_value(const Conv2d& o) { return o.has_bias + activation_cost(o.activation) + o.residual; }
double per_value(const GroupNorm& o) { return 5 + (o.silu ? 8 : 0) + o.has_shift; }
double per_value(const LayerNorm&) { return 7; }
double per_value(const RmsNorm&) { return 4; }
double per_value(const Attention&) { return 2; }
double per_value(const Add&) { return 1; }
double per_value(const Mul&) { return 1; }
double per_value(const Modulate& o) { return 1 + o.residual; }
double per_value(const Rope&) { return 3; }
double per_value(const Unary& o) { return activation_cost(o.kind); }
double per_value(const Scale&) { return 2; }
double per_value(const Sinusoid&) { return 16; }
double per_value(const auto&) { return 0; }

// Ops that never touch memory while running.
bool is_free(const Op& op) {
  return std::holds_alternative<Input>(op) || std::holds_alternative<Weight>(op) || std::holds_alternative<Reshape>(op);
}

}  // namespace

TensorType result(const Op& op, Types in) {
  return std::visit([&](const auto& o) { return result_of(o, in); }, op);
}

Work work(const Op& op, Types in, const TensorType& out) {
  Work w;
  if (is_free(op)) return w;
  std::visit(
      [&](const auto& o) {
        w.products = products_of(o, in, out);
        w.vector = Flops(per_value(o) * values(out));
      },
      op);
  w.written = size_of(out);
  if (std::holds_alternative<Attention>(op)) {  // softmax: an exponential, a maximum, a sum for every score
    const double heads = std::get<Attention>(op).heads;
    w.vector += Flops(8 * heads * static_cast<double>(in[0].shape[0] * in[0].shape[1] * in[1].shape[1]));
  }
  if (std::holds_alternative<Embedding>(op) || std::holds_alternative<Select>(op) ||
      std::holds_alternative<Slice>(op) || std::holds_alternative<Rows>(op)) {
    w.read = w.written;  // only the rows that are picked
    return w;
  }
  for (const TensorType& t : in) w.read += size_of(t);
  return w;
}

}  // namespace danqing
