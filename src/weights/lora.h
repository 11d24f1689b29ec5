// LoRA files of all dialects as one neutral list of parts, and the arithmetic of a part on a weight. Dialects: kohya
// (lora_unet_..., lora_te1_...), PEFT and diffusers (lora_A, adapter names, old processor names), LyCORIS (LoHa, LoKr,
// Tucker forms), DoRA, whole differences. Which weight a part belongs to is decided elsewhere, by name.
//
//   low rank    W + strength * alpha / rank * up @ down                     (W as [out, in], convolutions flattened)
//   LoHa        W + strength * alpha / rank * (w1_a @ w1_b) * (w2_a @ w2_b)   element by element
//   LoKr        W + strength * alpha / rank * kron(w1, w2)                  without alpha / rank where both are whole
//   difference  W + strength * diff
//   DoRA        V = W + delta; W + strength * (magnitude * V / |V| - W)     |V| of each row (of each input in the
//                                                                          first form of LyCORIS)
// Sources: arxiv.org/abs/2106.09685 (LoRA), 2108.06098 (LoHa), 2309.14859 (LyCORIS), 2402.09353 (DoRA).
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "weights/checkpoint.h"

namespace danqing {

enum class LoraKind : uint8_t { low_rank, hadamard, kronecker, difference };

// What a tensor is to its part.
enum class LoraRole : uint8_t {
  down,
  up,
  mid,
  alpha,
  magnitude,
  w1_a,
  w1_b,
  w2_a,
  w2_b,
  t1,
  t2,  // LoHa; LoKr uses them for its factors
  w1,
  w2,
  diff,
  diff_bias,
};
inline constexpr size_t kLoraRoles = 15;

struct LoraPart {
  std::string target;  // the key without its ending: "lora_unet_mid_block_attentions_0_proj_in", "unet.conv_in"
  std::string flat;    // target with "_" for ".": the form in which kohya and dotted names of one module are equal
  LoraKind kind = LoraKind::low_rank;
  int64_t rank = 0;                       // 0: none (differences, LoKr of whole factors)
  float scale = 1;                        // alpha / rank
  int64_t rows = 0;                       // of the weight it fits: outputs
  int64_t columns = 0;                    // elements a row: inputs times kernel
  bool magnitude_by_row = true;           // DoRA: a value a row, else one an input
  std::array<int, kLoraRoles> tensors{};  // index into Lora::file().tensors(); -1: none
  int operator[](LoraRole role) const { return tensors[static_cast<size_t>(role)]; }
};

class Lora {
 public:
  // Throws Error(Fault::file): no LoRA at all, parts with a half missing or with factors that do not fit, an alpha that
  // is not finite, kinds that are not supported (OFT, GLoRA, IA3), each by name.
  static Lora open(const std::filesystem::path& path);
  explicit Lora(Checkpoint file);

  const std::vector<LoraPart>& parts() const { return parts_; }
  const Checkpoint& file() const { return file_; }
  const std::vector<std::string>& notes() const { return notes_; }  // where alpha came from, keys without a use

  // Changes `weight`: rows x columns floats, row-major in the order of checkpoints ([out, in, kh, kw]). For a fused
  // weight (q, k and v in one) pass the rows that the part means. Throws Error(Fault::file) where the sizes differ from
  // the part's or the part holds values that are not finite. strength 0 changes nothing.
  void apply(const LoraPart& part, float strength, std::span<float> weight, int64_t rows) const;
  // The same for the bias of a part that has a difference for it; false where it has none.
  bool apply_bias(const LoraPart& part, float strength, std::span<float> bias) const;

 private:
  Checkpoint file_;
  std::vector<LoraPart> parts_;
  std::vector<std::string> notes_;
};

// Whether a file looks like a LoRA rather than a model: by its key names alone.
bool is_lora(const Checkpoint& file);

// "a.b.c" -> "a_b_c".
std::string flat_name(std::string_view name);

}  // namespace danqing
