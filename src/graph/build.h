// The pen that models write graphs with. It names what it builds after the checkpoint's parameters: a scope is a
// prefix.
#pragma once

#include "graph/graph.h"

namespace danqing {

// How numbers are held. Matrices and convolutions take `weights`; biases, norms and tables of positions stay f32.
struct Precision {
  DType weights = DType::f32;
  DType activations = DType::f32;
};

class Build {
 public:
  Build(Graph& graph, Precision precision) : graph_(graph), precision_(precision) {}

  // The same pen, one level deeper: b["input_blocks.1"]["0"].
  Build operator[](const std::string& scope) const;
  Build operator[](int scope) const { return (*this)[std::to_string(scope)]; }
  const std::string& scope() const { return scope_; }
  const Shape& shape(Value v) const { return graph_[v].type.shape; }
  DType dtype(Value v) const { return graph_[v].type.dtype; }
  Precision precision() const { return precision_; }

  Value input(const std::string& name, TensorType type) const;
  void output(const std::string& name, Value v) const;

  // Parameters, named scope + "." + name.
  Value matrix(const std::string& name, Shape shape, int64_t begin = 0,
               int64_t end = -1) const;                     // in the weights' dtype
  Value table(const std::string& name, Shape shape) const;  // f32
  Value vector(const std::string& name, int64_t size, int64_t begin = 0, int64_t end = -1) const;  // f32

  // Layers: parameters "<name>.weight" and "<name>.bias".
  Value linear(Value x, const std::string& name, int64_t out, bool bias = true) const;
  // Only rows [begin, end) of the layer's outputs: one half of a fused pair of layers.
  Value linear_rows(Value x, const std::string& name, int64_t total, int64_t begin, int64_t end,
                    bool bias = true) const;
  Value conv(Value x, const std::string& name, int64_t out, int kernel, int stride = 1, int pad = -1,
             int pad_end = -1) const;
  Value upsample_conv(Value x, const std::string& name, int64_t out) const;  // nearest x2, then 3x3
  Value group_norm(Value x, const std::string& name, int groups, float eps, std::optional<Value> shift = {}) const;
  Value layer_norm(Value x, const std::string& name, float eps = 1e-5f) const;
  Value layer_norm_plain(Value x, float eps) const { return make(LayerNorm{eps, false}, {x}); }  // no parameters
  Value rms_norm(Value x, const std::string& name, float eps) const;

  Value attention(Value q, Value k, Value v, int heads, int kv_heads, bool causal = false,
                  std::optional<Value> lengths = {}) const;
  Value add(Value a, Value b) const { return make(Add{}, {a, b}); }
  Value mul(Value a, Value b) const { return make(Mul{}, {a, b}); }
  Value modulate(Value x, Value factor) const { return make(Modulate{false}, {x, factor}); }
  Value modulate_add(Value x, Value factor, Value residual) const {
    return make(Modulate{true}, {x, factor, residual});
  }
  Value rope(Value x, Value table, bool halves) const { return make(Rope{halves}, {x, table}); }
  Value unary(Value x, Activation kind) const { return make(Unary{kind}, {x}); }
  Value silu(Value x) const { return unary(x, Activation::silu); }
  Value scale(Value x, float factor, float offset = 0) const { return make(Scale{factor, offset}, {x}); }
  Value concat(Value a, Value b) const { return make(Concat{}, {a, b}); }
  Value concat_rows(std::vector<Value> parts) const;  // [N, L, C] along the tokens; one part: itself
  Value repeat(Value x, Shape to) const { return make(Repeat{to}, {x}); }
  Value patchify(Value x, int64_t side) const { return make(Patchify{side}, {x}); }
  Value unpatchify(Value x, int64_t side, int64_t height, int64_t width) const {
    return make(Unpatchify{side, height, width}, {x});
  }
  Value upsample(Value x, int64_t height, int64_t width) const { return make(Upsample{height, width}, {x}); }
  Value reshape(Value x, Shape to) const { return make(Reshape{to}, {x}); }
  Value slice(Value x, int64_t begin, int64_t end) const { return make(Slice{begin, end}, {x}); }
  Value rows(Value x, int64_t begin, int64_t end) const;  // all of them: x itself
  Value embedding(Value ids, Value table) const { return make(Embedding{}, {ids, table}); }
  Value sinusoid(Value t, int64_t dim, bool flip = true) const { return make(Sinusoid{dim, flip}, {t}); }
  Value select(Value x, Counter by, int64_t count) const { return make(Select{by, count}, {x}); }
  Value cast(Value x, DType to) const { return dtype(x) == to ? x : make(Cast{to}, {x}); }

 private:
  Value make(Op op, std::vector<Value> in) const;
  Value push(Node node) const;
  std::string path(const std::string& name) const { return scope_.empty() ? name : scope_ + "." + name; }

  Graph& graph_;
  Precision precision_;
  std::string scope_;
};

}  // namespace danqing
