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

}  // namespace

std::vector<float> Lora::values(int tensor) const {
  const TensorInfo& t = file_.tensors().at(static_cast<size_t>(tensor));
  std::vector<std::byte> raw(t.bytes);
  file_.read(t, raw);
  Floats out(static_cast<size_t>(t.shape.count()));
  to_f32(t.dtype, raw, out);
  for (float v : out)
    if (!std::isfinite(v))
      throw Error(Fault::file, file_.path().string() + ": " + in_quotes(t.name) + " holds values that are not finite");
  return out;
}

// out[rows, columns] += scale * the part's difference, for a zeroed `out`.
void Lora::delta(const LoraPart& part, std::span<float> out) const {
  using R = LoraRole;
  const auto shape = [&](R r) -> const Shape& { return file_.tensors()[static_cast<size_t>(part[r])].shape; };
  const auto size = [&](R r, int64_t first) { return shape(r).count() / first; };
  // w_a @ w_b, or the Tucker form with a core, as [rows, columns].
  const auto product = [&](R a, R b, R core, int64_t rows, int64_t columns, std::span<float> to) {
    const int64_t rank = shape(b)[0];
    if (part[core] < 0) return multiply_add(values(part[a]), values(part[b]), rows, rank, columns, to);
    const int64_t inputs = size(b, rank);
    tucker_add({rows, inputs, columns / inputs, shape(a)[0], rank}, values(part[a]), rows, 1, values(part[core]),
               values(part[b]), to);
  };
  if (part.kind == LoraKind::difference) {
    const Floats diff = values(part[R::diff]);
    std::copy(diff.begin(), diff.end(), out.begin());
  } else if (part.kind == LoraKind::low_rank && part[R::mid] < 0) {
    multiply_add(values(part[R::up]), values(part[R::down]), part.rows, part.rank, part.columns, out);
  } else if (part.kind == LoraKind::low_rank) {
    const int64_t inner = shape(R::mid)[0], inputs = size(R::down, part.rank);
    tucker_add({part.rows, inputs, part.columns / inputs, inner, part.rank}, values(part[R::up]), 1, inner,
               values(part[R::mid]), values(part[R::down]), out);
  } else if (part.kind == LoraKind::hadamard) {
    Floats second(out.size());
    product(R::w1_a, R::w1_b, R::t1, part.rows, part.columns, out);
    product(R::w2_a, R::w2_b, R::t2, part.rows, part.columns, second);
    for (size_t i = 0; i < out.size(); ++i) out[i] *= second[i];
  } else {
    // Sizes of a factor: of the whole one, of the plain product [n, r] @ [r, m], or of the Tucker form [r, n], [r', m,
    // k].
    const auto factor = [&](R whole, R a, R b, R core, int64_t& rows, int64_t& columns) {
      if (part[whole] >= 0) {
        rows = shape(whole).rank() > 0 ? shape(whole)[0] : 1, columns = size(whole, rows);
        return values(part[whole]);
      }
      const bool plain = part[core] < 0;
      rows = plain ? shape(a)[0] : size(a, shape(a)[0]);
      columns = size(b, shape(b)[0]) * (plain ? 1 : size(core, shape(core)[0] * shape(core)[1]));
      Floats made(static_cast<size_t>(rows * columns));
      product(a, b, core, rows, columns, made);
      return made;
    };
    int64_t rows_1, columns_1, rows_2, columns_2;
    const Floats one = factor(R::w1, R::w1_a, R::w1_b, R::t1, rows_1, columns_1),
                 two = factor(R::w2, R::w2_a, R::w2_b, R::t2, rows_2, columns_2);
    for (int64_t a = 0; a < rows_1; ++a)
      for (int64_t c = 0; c < rows_2; ++c)
        for (int64_t b = 0; b < columns_1; ++b)
          for (int64_t d = 0; d < columns_2; ++d)
            out[((a * rows_2 + c) * columns_1 + b) * columns_2 + d] = one[a * columns_1 + b] * two[c * columns_2 + d];
  }
  for (float& v : out) v *= part.scale;
}

void Lora::apply(const LoraPart& part, float strength, std::span<float> weight, int64_t rows) const {
  const int64_t columns = rows > 0 ? static_cast<int64_t>(weight.size()) / rows : 0;
  if (part.kind == LoraKind::difference && part[LoraRole::diff] < 0) return;  // of the bias alone
  if (rows != part.rows || columns != part.columns)
    throw Error(Fault::file, file_.path().string() + ": LoRA layer " + in_quotes(part.target) +
                                 " is made for a weight of " + std::to_string(part.rows) + " x " +
                                 std::to_string(part.columns) + ", this one is " + std::to_string(rows) + " x " +
                                 std::to_string(columns));
  if (strength == 0) return;
  Floats change(weight.size());
  delta(part, change);
  if (part[LoraRole::magnitude] < 0) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] += strength * change[i];
    return;
  }
  for (size_t i = 0; i < weight.size(); ++i) change[i] += weight[i];
  decompose(values(part[LoraRole::magnitude]), part.magnitude_by_row, rows, change);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] += strength * (change[i] - weight[i]);
}

bool Lora::apply_bias(const LoraPart& part, float strength, std::span<float> bias) const {
  if (part[LoraRole::diff_bias] < 0) return false;
  const Floats change = values(part[LoraRole::diff_bias]);
  if (change.size() != bias.size())
    throw Error(Fault::file, file_.path().string() + ": LoRA layer " + in_quotes(part.target) + " has a bias of " +
                                 std::to_string(change.size()) + " values, the layer's has " +
                                 std::to_string(bias.size()));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += strength * change[i];
  return true;
}

}  // namespace danqing
