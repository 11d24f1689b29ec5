#include "graph/build.h"

namespace danqing {

Build Build::operator[](const std::string& scope) const {
  Build deeper = *this;
  deeper.scope_ = path(scope);
  return deeper;
}

Value Build::push(Node node) const {
  graph_.nodes.push_back(std::move(node));
  return {graph_.size() - 1};
}

Value Build::make(Op op, std::vector<Value> in) const {
  Node node{std::move(op), std::move(in), {}, scope_};
  node.type = result(node.op, graph_.input_types(node));
  return push(std::move(node));
}

Value Build::input(const std::string& name, TensorType type) const { return push({Input{}, {}, type, name}); }

void Build::output(const std::string& name, Value v) const {
  graph_.nodes[static_cast<size_t>(v.id)].name = name;
  graph_.outputs.push_back(v);
}

Value Build::matrix(const std::string& name, Shape shape, int64_t begin, int64_t end) const {
  if (end >= 0) shape[0] = end - begin;
  const std::string full = path(name);
  return push({Weight{{{full, begin, end}}}, {}, {precision_.weights, shape}, full});
}

Value Build::table(const std::string& name, Shape shape) const {
  return push({Weight{{{path(name)}}}, {}, {DType::f32, shape}, path(name)});
}

Value Build::vector(const std::string& name, int64_t size, int64_t begin, int64_t end) const {
  const std::string full = path(name);
  return push({Weight{{{full, begin, end}}}, {}, {DType::f32, {end >= 0 ? end - begin : size}}, full});
}

Value Build::linear(Value x, const std::string& name, int64_t out, bool bias) const {
  return linear_rows(x, name, out, 0, -1, bias);
}

Value Build::linear_rows(Value x, const std::string& name, int64_t total, int64_t begin, int64_t end, bool bias) const {
  const Build b = (*this)[name];
  std::vector<Value> in{x, b.matrix("weight", {total, shape(x).back()}, begin, end)};
  if (bias) in.push_back(b.vector("bias", total, begin, end));
  return b.make(Linear{bias}, std::move(in));
}

Value Build::conv(Value x, const std::string& name, int64_t out, int kernel, int stride, int pad, int pad_end) const {
  if (pad < 0) pad = pad_end = kernel / 2;
  const Build b = (*this)[name];
  const Value w = b.matrix("weight", {out, shape(x).back(), kernel, kernel});
  return b.make(Conv2d{stride, pad, pad_end, true}, {x, w, b.vector("bias", out)});
}

Value Build::upsample_conv(Value x, const std::string& name, int64_t out) const {
  const Build b = (*this)[name];
  const Value w = b.matrix("weight", {out, shape(x).back(), 3, 3});
  Conv2d op{1, 1, 1, true};
  op.upsample = true;
  return b.make(op, {x, w, b.vector("bias", out)});
}

Value Build::group_norm(Value x, const std::string& name, int groups, float eps, std::optional<Value> shift) const {
  const Build b = (*this)[name];
  const int64_t c = shape(x).back();
  std::vector<Value> in{x, b.vector("weight", c), b.vector("bias", c)};
  if (shift) in.push_back(*shift);
  return b.make(GroupNorm{groups, eps, false, shift.has_value()}, std::move(in));
}

Value Build::layer_norm(Value x, const std::string& name, float eps) const {
  const Build b = (*this)[name];
  const int64_t c = shape(x).back();
  return b.make(LayerNorm{eps, true}, {x, b.vector("weight", c), b.vector("bias", c)});
}

Value Build::rms_norm(Value x, const std::string& name, float eps) const {
  const Build b = (*this)[name];
  return b.make(RmsNorm{eps}, {x, b.vector("weight", shape(x).back())});
}

Value Build::attention(Value q, Value k, Value v, int heads, int kv_heads, bool causal,
                       std::optional<Value> lengths) const {
  std::vector<Value> in{q, k, v};
  if (lengths) in.push_back(*lengths);
  return make(Attention{heads, kv_heads, causal, lengths.has_value()}, std::move(in));
}

Value Build::rows(Value x, int64_t begin, int64_t end) const {
  return begin == 0 && end == shape(x)[1] ? x : make(Rows{begin, end}, {x});
}

Value Build::concat_rows(std::vector<Value> parts) const {
  return parts.size() == 1 ? parts.front() : make(Concat{1}, std::move(parts));
}

}  // namespace danqing
