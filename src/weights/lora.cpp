// Which key is what part of which module, and whether the parts are whole. The arithmetic is in lora_apply.cpp.
#include "weights/lora.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "weights/container.h"
#include "weights/convert.h"
#include "weights/json_text.h"

namespace danqing {
namespace {

struct Ending {
  std::string_view text;
  LoraRole role;
};
// Longer endings stand before their own tails.
constexpr Ending kEndings[] = {
    {".lora_linear_layer.down.weight", LoraRole::down},
    {".lora_linear_layer.up.weight", LoraRole::up},
    {".lora_down.weight", LoraRole::down},
    {".lora_up.weight", LoraRole::up},
    {".lora_mid.weight", LoraRole::mid},
    {".lora_A.weight", LoraRole::down},
    {".lora_B.weight", LoraRole::up},
    {".lora.down.weight", LoraRole::down},
    {".lora.up.weight", LoraRole::up},
    {"_lora.down.weight", LoraRole::down},
    {"_lora.up.weight", LoraRole::up},
    {".lora_A", LoraRole::down},
    {".lora_B", LoraRole::up},
    {".alpha", LoraRole::alpha},
    {".dora_scale", LoraRole::magnitude},
    {".lora_magnitude_vector.weight", LoraRole::magnitude},
    {".lora_magnitude_vector", LoraRole::magnitude},
    {".hada_w1_a", LoraRole::w1_a},
    {".hada_w1_b", LoraRole::w1_b},
    {".hada_w2_a", LoraRole::w2_a},
    {".hada_w2_b", LoraRole::w2_b},
    {".hada_t1", LoraRole::t1},
    {".hada_t2", LoraRole::t2},
    {".lokr_w1", LoraRole::w1},
    {".lokr_w2", LoraRole::w2},
    {".lokr_w1_a", LoraRole::w1_a},
    {".lokr_w1_b", LoraRole::w1_b},
    {".lokr_w2_a", LoraRole::w2_a},
    {".lokr_w2_b", LoraRole::w2_b},
    {".lokr_t2", LoraRole::t2},
    {".diff", LoraRole::diff},
    {".diff_b", LoraRole::diff_bias},
};

// Endings of kinds whose half would be worse than none.
constexpr std::pair<std::string_view, std::string_view> kUnsupported[] = {
    {".oft_blocks", "OFT"},
    {".oft_diag", "OFT"},
    {".on_input", "IA3"},
    {".a1.weight", "GLoRA"},
    {".b1.weight", "GLoRA"},
    {".lora_A.bias", "LoRA with biases"},
    {".lora_B.bias", "LoRA with biases"},
    {".reshape_weight", "LoRA that reshapes its weight"},
};

// PEFT may put the adapter's name before the last word: lora_A.default.weight -> lora_A.weight.
std::string without_adapter(const std::string& key) {
  for (const std::string_view marker : {".lora_A.", ".lora_B.", ".lora_magnitude_vector."}) {
    const size_t at = key.rfind(marker);
    if (at == std::string::npos) continue;
    const std::string tail = key.substr(at + marker.size());
    const std::string head = key.substr(0, at + marker.size() - 1);
    if (marker == ".lora_magnitude_vector.") return head;
    if (tail.ends_with(".weight") || tail.ends_with(".bias")) return head + tail.substr(tail.rfind('.'));
  }
  return key;
}

// Wrappers that say nothing about the module, and the attention processors of early diffusers.
std::string module_name(std::string name) {
  for (const std::string_view wrapper : {"base_model.model."})
    if (name.starts_with(wrapper)) name.erase(0, wrapper.size());
  if (const size_t at = name.find(".processor."); at != std::string::npos) {
    name.erase(at, 10);
    if (name.ends_with(".to_out")) name += ".0";
  }
  return name;
}

struct Role {
  std::string target;
  LoraRole role;
};

std::optional<Role> role_of(const std::string& key) {
  const std::string plain = without_adapter(key);
  for (const Ending& e : kEndings)
    if (plain.size() > e.text.size() && plain.ends_with(e.text))
      return Role{module_name(plain.substr(0, plain.size() - e.text.size())), e.role};
  return std::nullopt;
}

class PartReader {
 public:
  PartReader(const Checkpoint& file, LoraPart& part, std::optional<float> alpha)
      : file_(file), part_(part), given_(alpha) {}

  void check() {
    using R = LoraRole;
    if (has(R::up) || has(R::down))
      low_rank();
    else if (has(R::w1) || has(R::w2) || kronecker())
      lokr();
    else if (has(R::w1_a) || has(R::w1_b))
      loha();
    else if (has(R::diff) || has(R::diff_bias))
      difference();
    else
      fail("has only an alpha or a magnitude: its factors are missing");
    const int64_t most = int64_t{1} << 40;  // far past any layer; keeps products in range
    const bool of_bias = part_.kind == LoraKind::difference && !has(R::diff);
    if (part_.rows <= 0 || part_.columns <= (of_bias ? -1 : 0) || part_.rows > most || part_.columns > most)
      fail("has an empty or absurd size");
    if (part_.rank > 0) part_.scale = given_.value_or(static_cast<float>(part_.rank)) / static_cast<float>(part_.rank);
    if (has(R::magnitude)) magnitude();
  }

 private:
  bool has(LoraRole r) const { return part_[r] >= 0; }
  const Shape& shape(LoraRole r) const { return file_.tensors()[static_cast<size_t>(part_[r])].shape; }
  int64_t count(LoraRole r) const { return shape(r).count(); }
  int64_t first(LoraRole r) const { return shape(r).rank() > 0 ? shape(r)[0] : 1; }
  int64_t rest(LoraRole r) const { return first(r) > 0 ? count(r) / first(r) : 0; }
  bool kronecker() const { return part_.kind == LoraKind::kronecker; }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Fault::file, file_.path().string() + ": LoRA layer " + in_quotes(part_.target) + " " + why);
  }
  void need(std::initializer_list<LoraRole> roles) const {
    for (LoraRole r : roles) {
      if (!has(r)) fail("lacks one of its factors");
      if (shape(r).rank() < 2) fail("has a factor that is no matrix: " + to_string(shape(r)));
    }
  }
  void equal(int64_t a, int64_t b, const char* what) const {
    if (a != b)
      fail(std::string("has factors that do not fit: ") + what + " " + std::to_string(a) + " and " + std::to_string(b));
  }
  int64_t kernel(LoraRole t) const {
    return shape(t).rank() < 2 || shape(t)[0] * shape(t)[1] == 0 ? 0 : count(t) / (shape(t)[0] * shape(t)[1]);
  }

  // PEFT keeps one value a row, in any shape; LyCORIS [out, 1] or, in its first form, [1, in].
  void magnitude() {
    const TensorInfo& t = file_.tensors()[static_cast<size_t>(part_[LoraRole::magnitude])];
    const int64_t n = t.shape.count();
    const bool peft = t.name.find("lora_magnitude_vector") != std::string::npos;
    part_.magnitude_by_row = peft || t.shape.rank() < 2 || t.shape[0] == part_.rows;
    const bool fits = part_.magnitude_by_row ? n == part_.rows : t.shape[0] == 1 && n > 0 && part_.columns % n == 0;
    if (!fits)
      fail("has a magnitude of " + to_string(t.shape) + " for a weight of " + std::to_string(part_.rows) + " x " +
           std::to_string(part_.columns));
  }
  void low_rank() {
    using R = LoraRole;
    need({R::up, R::down});
    part_.rank = first(R::down);
    part_.rows = first(R::up);
    part_.columns = rest(R::down);
    equal(rest(R::up), has(R::mid) ? first(R::mid) : part_.rank, "ranks");
    if (!has(R::mid)) return;
    need({R::mid});
    equal(shape(R::mid)[1], part_.rank, "ranks");
    part_.columns *= kernel(R::mid);
  }

  // Sizes of w_a @ w_b, or of the Tucker form t, w_a [r, rows], w_b [r', columns].
  std::array<int64_t, 2> product(LoraRole a, LoraRole b, LoraRole t) {
    need({a, b});
    part_.rank = first(b);
    if (!has(t)) {
      equal(rest(a), first(b), "ranks");
      return {first(a), rest(b)};
    }
    need({t});
    equal(shape(t)[0], first(a), "ranks");
    equal(shape(t)[1], first(b), "ranks");
    return {rest(a), rest(b) * kernel(t)};
  }
  void loha() {
    using R = LoraRole;
    part_.kind = LoraKind::hadamard;
    const auto one = product(R::w1_a, R::w1_b, R::t1), two = product(R::w2_a, R::w2_b, R::t2);
    equal(one[0], two[0], "rows");
    equal(one[1], two[1], "columns");
    part_.rows = one[0], part_.columns = one[1];
  }
  void lokr() {
    using R = LoraRole;
    part_.kind = LoraKind::kronecker;
    const auto one = has(R::w1) ? std::array{first(R::w1), rest(R::w1)} : product(R::w1_a, R::w1_b, R::t1);
    const auto two = has(R::w2) ? std::array{first(R::w2), rest(R::w2)} : product(R::w2_a, R::w2_b, R::t2);
    for (int64_t n : {one[0], one[1], two[0], two[1]})
      if (n <= 0 || n > (int64_t{1} << 20)) fail("has an empty or absurd factor");
    part_.rows = one[0] * two[0], part_.columns = one[1] * two[1];
  }
  void difference() {
    using R = LoraRole;
    part_.kind = LoraKind::difference;
    const R sized = has(R::diff) ? R::diff : R::diff_bias;
    part_.rows = first(sized);
    part_.columns = has(R::diff) ? rest(R::diff) : 0;
  }

  const Checkpoint& file_;
  LoraPart& part_;
  std::optional<float> given_;
};

float scalar(const Checkpoint& file, const TensorInfo& t) {
  if (t.shape.count() != 1)
    throw Error(Fault::file, file.path().string() + ": " + in_quotes(t.name) + " is " + to_string(t.shape) +
                                 ", one number is wanted");
  std::vector<std::byte> raw(t.bytes);
  file.read(t, raw);
  float value = 0;
  to_f32(t.dtype, raw, {&value, 1});
  if (!std::isfinite(value))
    throw Error(Fault::file, file.path().string() + ": " + in_quotes(t.name) + " is not a finite number");
  return value;
}

// Alpha for parts without their own. A trainer's records (ss_network_alpha) are no statement about the layers.
std::optional<float> metadata_alpha(const Checkpoint& file) {
  const auto number = [&](const std::string& text) -> std::optional<float> {
    float value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
  };
  for (const char* key : {"network_alpha", "lora_alpha"})
    if (const auto at = file.metadata().find(key); at != file.metadata().end())
      if (const auto value = number(at->second)) return value;
  const auto at = file.metadata().find("lora_adapter_metadata");  // diffusers: {"unet.lora_alpha": 16, ...}
  if (at == file.metadata().end()) return std::nullopt;
  const auto json = parse_json_object(at->second, file.path().string() + ": metadata lora_adapter_metadata");
  for (const auto& [key, value] : json.items())
    if (key.ends_with("lora_alpha") && value.is_number()) return value.get<float>();
  return std::nullopt;
}

// The tensors of the file by layer; what belongs to none is noted.
std::map<std::string, LoraPart> collect(const Checkpoint& file, std::vector<std::string>& notes) {
  const auto fail = [&](const std::string& why) { throw Error(Fault::file, file.path().string() + ": " + why); };
  std::map<std::string, LoraPart> parts;
  std::vector<std::string> useless;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string& key = file.tensors()[i].name;
    for (const auto& [ending, kind] : kUnsupported)
      if (without_adapter(key).ends_with(ending))
        fail(in_quotes(key) + " belongs to a " + std::string(kind) + ", which danqing does not apply");
    const auto role = role_of(key);
    if (!role) {
      useless.push_back(key);
      continue;
    }
    auto [at, added] = parts.try_emplace(role->target);
    LoraPart& part = at->second;
    if (added) part.target = role->target, part.flat = flat_name(role->target), part.tensors.fill(-1);
    if (key.find(".lokr_") != std::string::npos) part.kind = LoraKind::kronecker;
    int& slot = part.tensors[static_cast<size_t>(role->role)];
    if (slot >= 0)
      fail(in_quotes(key) + " and " + in_quotes(file.tensors()[slot].name) + " are the same factor of one layer");
    slot = static_cast<int>(i);
  }
  if (parts.empty())
    fail("is not a LoRA: none of its " + std::to_string(file.tensors().size()) + " tensors is a part of one");
  if (!useless.empty())
    notes.push_back(file.path().string() + ": " + std::to_string(useless.size()) +
                    " tensors are no part of a LoRA and have no use (" + in_quotes(useless[0]) + ")");
  return parts;
}

}  // namespace

std::string flat_name(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

bool is_lora(const Checkpoint& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [](const TensorInfo& t) {
    const auto role = role_of(t.name);
    return role && role->role != LoraRole::alpha && role->role != LoraRole::diff && role->role != LoraRole::diff_bias;
  });
}

Lora Lora::open(const std::filesystem::path& path) { return Lora(Checkpoint::open(path)); }

Lora::Lora(Checkpoint file) : file_(std::move(file)), notes_(file_.notes()) {
  const std::string place = file_.path().string() + ": ";
  const std::optional<float> common = metadata_alpha(file_);
  size_t without = 0, differing = 0;
  for (auto& [target, part] : collect(file_, notes_)) {
    std::optional<float> own;
    if (part[LoraRole::alpha] >= 0) own = scalar(file_, file_.tensors()[static_cast<size_t>(part[LoraRole::alpha])]);
    PartReader(file_, part, own ? own : common).check();
    without += !own && part.rank > 0;
    differing += own && common && *own != *common;
    parts_.push_back(std::move(part));
  }
  if (without > 0)
    notes_.push_back(place + std::to_string(without) + " of " + std::to_string(parts_.size()) +
                     " layers have no alpha, taking " + (common ? "that of the metadata" : "their rank"));
  if (differing > 0)
    notes_.push_back(place + std::to_string(differing) +
                     " layers have another alpha than the metadata says: theirs is taken");
}

}  // namespace danqing
