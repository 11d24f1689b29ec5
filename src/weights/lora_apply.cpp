// The arithmetic of LoRA parts in f32. Sizes were checked when the file was opened; here against the weight.
#include <cmath>

#include "base/error.h"
#include "weights/container.h"
#include "weights/convert.h"
#include "weights/lora.h"

namespace danqing {
namespace {

using Floats = std::vector<float>;

// out[rows, columns] += a[rows, inner] @ b[inner, columns]
void multiply_add(const Floats& a, const Floats& b, int64_t rows, int64_t inner, int64_t columns,
                  std::span<float> out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k) {
      const float factor = a[i * inner + k];
      const float* row = b.data() + k * columns;
      float* to = out.data() + i * columns;
      for (int64_t j = 0; j < columns; ++j) to[j] += factor * row[j];
    }
}

// out[p, c, k] += sum over i, j of a(i, p) * core[i, j, k] * b[j, c], where a(i, p) = a[i * step_i + p * step_p].
struct Tucker {
  int64_t rows, inputs, kernel, rank_a, rank_b;
};
void tucker_add(const Tucker& s, const Floats& a, int64_t step_i, int64_t step_p, const Floats& core, const Floats& b,
                std::span<float> out) {
  Floats mixed(static_cast<size_t>(s.rank_b * s.kernel));
  for (int64_t p = 0; p < s.rows; ++p) {
    std::fill(mixed.begin(), mixed.end(), 0.f);
    for (int64_t i = 0; i < s.rank_a; ++i)
      for (size_t jk = 0; jk < mixed.size(); ++jk)
        mixed[jk] += a[i * step_i + p * step_p] * core[i * mixed.size() + jk];
    for (int64_t j = 0; j < s.rank_b; ++j)
      for (int64_t c = 0; c < s.inputs; ++c)
        for (int64_t k = 0; k < s.kernel; ++k)
          out[(p * s.inputs + c) * s.kernel + k] += mixed[j * s.kernel + k] * b[j * s.inputs + c];
  }
}

// magnitude * V / |V| in place: the norm over each row, or over each input column (all rows and the kernel).
void decompose(const Floats& magnitude, bool by_row, int64_t rows, std::span<float> v) {
  const int64_t columns = static_cast<int64_t>(v.size()) / rows, count = static_cast<int64_t>(magnitude.size());
  const int64_t kernel = by_row ? columns : columns / count;
  const auto group = [&](int64_t r, int64_t c) { return by_row ? r : c / kernel; };
  std::vector<double> squares(static_cast<size_t>(count));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) squares[group(r, c)] += double{v[r * columns + c]} * v[r * columns + c];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const double norm = std::sqrt(squares[group(r, c)]);
      if (norm > 0) v[r * columns + c] = static_cast<float>(v[r * columns + c] * (magnitude[group(r, c)] / norm));
    }
}

// The factors of one part, as matrices of floats.
class Factors {
 public:
  using R = LoraRole;
  Factors(const Checkpoint& file, const LoraPart& part) : file_(file), part_(part) {}

  Floats values(R role) const {
    const TensorInfo& t = tensor(role);
    std::vector<std::byte> raw(t.bytes);
    file_.read(t, raw);
    Floats out(static_cast<size_t>(t.shape.count()));
    to_f32(t.dtype, raw, out);
    for (float v : out)
      if (!std::isfinite(v)) fail_at(in_quotes(t.name) + " holds values that are not finite");
    return out;
  }

  // What the part adds at strength 1, into zeros.
  void delta(std::span<float> out) const {
    switch (part_.kind) {
      case LoraKind::low_rank:
        low_rank(out);
        break;
      case LoraKind::hadamard:
        hadamard(out);
        break;
      case LoraKind::kronecker:
        kronecker(out);
        break;
      case LoraKind::difference: {
        const Floats diff = values(R::diff);
        std::copy(diff.begin(), diff.end(), out.begin());
      }
    }
    for (float& v : out) v *= part_.scale;
  }

  [[noreturn]] void fail_at(const std::string& why) const {
    throw Error(Fault::file, file_.path().string() + ": " + why);
  }
  [[noreturn]] void fail(const std::string& why) const { fail_at("LoRA layer " + in_quotes(part_.target) + " " + why); }

 private:
  struct Matrix {
    int64_t rows, columns;
    Floats values;
  };
  bool has(R role) const { return part_[role] >= 0; }
  const TensorInfo& tensor(R role) const { return file_.tensors().at(static_cast<size_t>(part_[role])); }
  const Shape& shape(R role) const { return tensor(role).shape; }
  int64_t first(R role) const { return shape(role).rank() > 0 ? shape(role)[0] : 1; }
  int64_t rest(R role) const { return shape(role).count() / first(role); }

  void low_rank(std::span<float> out) const {
    const Floats up = values(R::up), down = values(R::down);
    if (!has(R::mid)) return multiply_add(up, down, part_.rows, part_.rank, part_.columns, out);
    const int64_t inner = first(R::mid), inputs = rest(R::down);
    tucker_add({part_.rows, inputs, part_.columns / inputs, inner, part_.rank}, up, 1, inner, values(R::mid), down,
               out);
  }
  void hadamard(std::span<float> out) const {
    const Matrix one = product(R::w1_a, R::w1_b, R::t1), two = product(R::w2_a, R::w2_b, R::t2);
    for (size_t i = 0; i < out.size(); ++i) out[i] = one.values[i] * two.values[i];
  }
  void kronecker(std::span<float> out) const {
    const Matrix one = has(R::w1) ? whole(R::w1) : product(R::w1_a, R::w1_b, R::t1);
    const Matrix two = has(R::w2) ? whole(R::w2) : product(R::w2_a, R::w2_b, R::t2);
    float* to = out.data();
    for (int64_t a = 0; a < one.rows; ++a)
      for (int64_t c = 0; c < two.rows; ++c)
        for (int64_t b = 0; b < one.columns; ++b)
          for (int64_t d = 0; d < two.columns; ++d)
            *to++ = one.values[a * one.columns + b] * two.values[c * two.columns + d];
  }
  Matrix whole(R role) const { return {first(role), rest(role), values(role)}; }
  // [n, r] @ [r, m]; or with a core [r, r', k] the Tucker form of [r, n] and [r', m], of m * k columns.
  Matrix product(R a, R b, R core) const {
    const int64_t rank = first(b), inputs = rest(b);
    const int64_t kernel = has(core) ? shape(core).count() / (first(core) * rank) : 1;
    Matrix out{has(core) ? rest(a) : first(a), inputs * kernel, {}};
    out.values.resize(static_cast<size_t>(out.rows * out.columns));
    if (has(core))
      tucker_add({out.rows, inputs, kernel, first(core), rank}, values(a), out.rows, 1, values(core), values(b),
                 out.values);
    else
      multiply_add(values(a), values(b), out.rows, rank, out.columns, out.values);
    return out;
  }

  const Checkpoint& file_;
  const LoraPart& part_;
};

}  // namespace

void Lora::apply(const LoraPart& part, float strength, std::span<float> weight, int64_t rows) const {
  const int64_t columns = rows > 0 ? static_cast<int64_t>(weight.size()) / rows : 0;
  if (part.kind == LoraKind::difference && part[LoraRole::diff] < 0) return;  // of the bias alone
  const Factors factors(file_, part);
  if (rows != part.rows || columns != part.columns || rows * columns != static_cast<int64_t>(weight.size()))
    factors.fail("is made for a weight of " + std::to_string(part.rows) + " x " + std::to_string(part.columns) +
                 ", this one is " + std::to_string(rows) + " x " + std::to_string(columns));
  if (strength == 0) return;
  Floats change(weight.size());
  factors.delta(change);
  if (part[LoraRole::magnitude] < 0) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] += strength * change[i];
    return;
  }
  for (size_t i = 0; i < weight.size(); ++i) change[i] += weight[i];
  decompose(factors.values(LoraRole::magnitude), part.magnitude_by_row, rows, change);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] += strength * (change[i] - weight[i]);
}

bool Lora::apply_bias(const LoraPart& part, float strength, std::span<float> bias) const {
  if (part[LoraRole::diff_bias] < 0) return false;
  const Factors factors(file_, part);
  const Floats change = factors.values(LoraRole::diff_bias);
  if (change.size() != bias.size())
    factors.fail("has a bias of " + std::to_string(change.size()) + " values, the layer's has " +
                 std::to_string(bias.size()));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += strength * change[i];
  return true;
}

}  // namespace danqing
