// The tensors of a torch pickle: which calls rebuild one, of which elements of which storage. All else is left out.
#include "weights/torch_state.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace danqing {
namespace {

using Kind = PickleNode::Kind;

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr NamedType kStorages[] = {
    {"torch FloatStorage", DType::f32},     {"torch HalfStorage", DType::f16},
    {"torch BFloat16Storage", DType::bf16}, {"torch DoubleStorage", DType::f64},
    {"torch LongStorage", DType::i64},      {"torch IntStorage", DType::i32},
    {"torch ShortStorage", DType::i16},     {"torch CharStorage", DType::i8},
    {"torch ByteStorage", DType::u8},       {"torch BoolStorage", DType::boolean},
    {"torch UntypedStorage", DType::u8},    {"torch.storage UntypedStorage", DType::u8},
};
constexpr NamedType kTypes[] = {
    {"torch float32", DType::f32},
    {"torch float16", DType::f16},
    {"torch bfloat16", DType::bf16},
    {"torch float64", DType::f64},
    {"torch int64", DType::i64},
    {"torch int32", DType::i32},
    {"torch int16", DType::i16},
    {"torch int8", DType::i8},
    {"torch uint8", DType::u8},
    {"torch bool", DType::boolean},
    {"torch float8_e4m3fn", DType::f8_e4m3},
    {"torch float8_e5m2", DType::f8_e5m2},
};
constexpr std::string_view kRebuilders[] = {"torch._utils _rebuild_tensor",
                                            "torch._utils _rebuild_tensor_v2",
                                            "torch._utils _rebuild_tensor_v3",
                                            "torch._utils _rebuild_parameter",
                                            "torch._utils _rebuild_parameter_with_state",
                                            "torch._tensor _rebuild_from_type_v2",
                                            "torch Size",
                                            "torch.nn.parameter Parameter",
                                            "torch Tensor"};

std::optional<DType> type_named(std::span<const NamedType> types, std::string_view name) {
  const auto at = std::find_if(types.begin(), types.end(), [&](auto& t) { return t.name == name; });
  return at == types.end() ? std::nullopt : std::optional(at->dtype);
}

struct StorageId {
  std::string_view type, key;
  uint64_t count = 0;
};

class StateReader {
 public:
  StateReader(const File& file, const Pickle& pickle, const Storages& storages)
      : file_(file), pickle_(pickle), storages_(storages) {}

  Contents read() {
    const PickleNode& top = pickle_[pickle_.top];
    const PickleNode* state = &top;
    if (top.kind == Kind::dict) {
      for (size_t i = 0; i + 1 < top.items.size(); i += 2)
        if (node(top.items[i]).text == "state_dict" && node(top.items[i + 1]).kind == Kind::dict)
          state = &node(top.items[i + 1]);
      if (state != &top) keep_scalars(top);
    }
    walk(*state, "", 0);
    if (tensors_.empty())
      fail_in(file_, "holds no tensors by name (a whole pickled model or a TorchScript program?): save its state_dict");
    for (auto& [name, tensor] : tensors_) contents_.tensors.push_back(std::move(tensor));
    note_unknown_classes();
    return std::move(contents_);
  }

 private:
  const PickleNode& node(PickleRef at) const { return pickle_[at]; }

  void keep_scalars(const PickleNode& dict) {
    constexpr size_t kMost = 1024;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleNode &key = node(dict.items[i]), &value = node(dict.items[i + 1]);
      if (key.kind != Kind::text || key.text.size() > kMost) continue;
      if (value.kind == Kind::integer) contents_.metadata[key.text] = std::to_string(value.integer);
      if (value.kind == Kind::text && value.text.size() <= kMost) contents_.metadata[key.text] = value.text;
    }
  }

  void walk(const PickleNode& dict, const std::string& prefix, int depth) {
    // A dictionary that is its own value, or shared in many places, must not be walked without end.
    if (dict.kind != Kind::dict || !visited_.insert(&dict).second) return;
    if (depth > 20) fail_in(file_, "has dictionaries nested deeper than 20 levels");
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleNode &key = node(dict.items[i]), &value = node(dict.items[i + 1]);
      if (key.kind != Kind::text && key.kind != Kind::integer) continue;
      const std::string name = prefix + (key.kind == Kind::text ? key.text : std::to_string(key.integer));
      if (name.size() > 4096) fail_in(file_, "has a name of more than 4096 bytes: " + in_quotes(name));
      if (value.kind == Kind::dict) walk(value, name + ".", depth + 1);
      if (value.kind == Kind::call) add(name, value);
    }
  }

  // A call that rebuilds a tensor becomes one; a later entry of the same name replaces an earlier, as in a dictionary.
  void add(const std::string& name, const PickleNode& call) {
    const PickleNode* at = &call;
    for (int wraps = 0; wraps < 4 && at->kind == Kind::call; ++wraps) {
      const std::string& callee = node(at->items[0]).text;
      const PickleNode& arguments = node(at->items[1]);
      if (arguments.kind != Kind::tuple) return;
      if (callee.starts_with("torch._utils _rebuild_tensor")) {
        if (auto tensor = rebuild(name, callee, arguments)) tensors_[name] = std::move(*tensor);
        return;
      }
      if (callee == "torch._tensor _rebuild_from_type_v2" &&
          arguments.items.size() == 4) {  // (rebuilder, type, arguments, state)
        const PickleNode &inner = node(arguments.items[0]), &given = node(arguments.items[2]);
        if (given.kind == Kind::tuple)
          if (auto tensor = rebuild(name, inner.text, given)) tensors_[name] = std::move(*tensor);
        return;
      }
      const bool wrapper =
          callee.starts_with("torch._utils _rebuild_parameter") || callee == "torch.nn.parameter Parameter";
      if (!wrapper || arguments.items.empty()) return;
      at = &node(arguments.items[0]);
    }
  }

  // (storage, offset, size, stride, ...); version 3 has the element type as its seventh argument.
  std::optional<TensorInfo> rebuild(const std::string& name, const std::string& callee, const PickleNode& arguments) {
    const bool typed = callee == "torch._utils _rebuild_tensor_v3";
    if (!typed && callee != "torch._utils _rebuild_tensor_v2" && callee != "torch._utils _rebuild_tensor")
      return leave_out(name, callee);
    if (arguments.items.size() < (typed ? 7u : 4u))
      fail_in(file_, in_quotes(name) + " is rebuilt from too few arguments");
    const StorageId storage = storage_of(name, node(arguments.items[0]));
    const std::string_view type = typed ? std::string_view(node(arguments.items[6]).text) : storage.type;
    const auto dtype =
        type_named(typed ? std::span<const NamedType>(kTypes) : std::span<const NamedType>(kStorages), type);
    if (!dtype) return leave_out(name, std::string(type));
    const auto place = storages_.find(storage.key);
    if (place == storages_.end())
      fail_in(file_, in_quotes(name) + " lies in storage " + in_quotes(storage.key) + ", which is missing");

    const auto sizes = numbers(name, node(arguments.items[2])), strides = numbers(name, node(arguments.items[3]));
    const PickleNode& offset = node(arguments.items[1]);
    if (strides.size() != sizes.size() || offset.kind != Kind::integer || offset.integer < 0)
      fail_in(file_, in_quotes(name) + " has sizes, strides and an offset that do not fit together");
    TensorInfo t{.name = name, .dtype = *dtype, .shape = checked_shape(file_, name, sizes)};
    const uint64_t size = static_cast<uint64_t>(info(*dtype).bytes), room = place->second.size / size;
    check_reach(t, strides, static_cast<uint64_t>(offset.integer), room);
    if (t.shape.count() > static_cast<int64_t>(room)) return leave_out(name, "a view that repeats elements");
    t.bytes = static_cast<uint64_t>(t.shape.count()) * size;
    t.offset = place->second.begin + static_cast<uint64_t>(offset.integer) * size;
    if (t.shape.count() > 0 && !is_dense(t.shape, strides)) {
      t.strides = t.shape;
      for (int i = 0; i < t.shape.rank(); ++i) (*t.strides)[i] = t.shape[i] > 1 ? static_cast<int64_t>(strides[i]) : 0;
    }
    return t;
  }

  // The farthest element must lie in the storage.
  void check_reach(const TensorInfo& t, std::span<const uint64_t> strides, uint64_t offset, uint64_t room) const {
    unsigned __int128 last = offset;
    for (int i = 0; i < t.shape.rank(); ++i)
      if (t.shape[i] > 1) last += static_cast<unsigned __int128>(t.shape[i] - 1) * strides[i];
    if (t.shape.count() == 0 ? offset > room : last >= room)
      fail_in(file_, in_quotes(t.name) + " is " + to_string(t.shape) + " " + std::string(danqing::name(t.dtype)) +
                         " from element " + std::to_string(offset) + " on, its storage has " + std::to_string(room) +
                         " elements");
  }

  static bool is_dense(const Shape& shape, std::span<const uint64_t> strides) {
    uint64_t expected = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      if (shape[i] > 1 && strides[i] != expected) return false;
      expected *= static_cast<uint64_t>(shape[i]);
    }
    return true;
  }

  StorageId storage_of(const std::string& name, const PickleNode& persistent) const {
    if (persistent.kind == Kind::persistent)
      if (auto id = storage_id(pickle_, persistent)) return *id;
    fail_in(file_, in_quotes(name) + " names no storage");
  }

  std::vector<uint64_t> numbers(const std::string& name, const PickleNode& given) const {
    const PickleNode* list = &given;
    if (list->kind == Kind::call && node(list->items[0]).text == "torch Size") list = &node(list->items[1]);
    std::vector<uint64_t> out;
    for (PickleRef at : list->items) {
      if (node(at).kind != Kind::integer || node(at).integer < 0)
        fail_in(file_, in_quotes(name) + " has a size or stride that is no whole number");
      out.push_back(static_cast<uint64_t>(node(at).integer));
    }
    return out;
  }

  std::optional<TensorInfo> leave_out(const std::string& name, const std::string& what) {
    contents_.notes.push_back(file_.path().string() + ": " + in_quotes(name) + " (" + what + ") is not read: left out");
    return std::nullopt;
  }

  void note_unknown_classes() {
    std::set<std::string> unknown;
    for (const PickleNode& n : pickle_.nodes) {
      if (n.kind != Kind::global || n.text.starts_with("collections ") || type_named(kStorages, n.text) ||
          type_named(kTypes, n.text))
        continue;
      if (std::find(std::begin(kRebuilders), std::end(kRebuilders), n.text) == std::end(kRebuilders))
        unknown.insert(n.text);
    }
    if (unknown.empty()) return;
    std::string first = *unknown.begin();
    std::replace(first.begin(), first.end(), ' ', '.');
    contents_.notes.push_back(file_.path().string() + ": objects of " + std::to_string(unknown.size()) +
                              " classes that hold no weights are left out (" + in_quotes(first) +
                              (unknown.size() > 1 ? ", ...)" : ")"));
  }

 public:
  // ("storage", type, key, location, elements, ...)
  static std::optional<StorageId> storage_id(const Pickle& pickle, const PickleNode& persistent) {
    const PickleNode& id = pickle[persistent.items[0]];
    if (id.kind != Kind::tuple || id.items.size() < 5 || pickle[id.items[0]].text != "storage") return std::nullopt;
    const PickleNode& count = pickle[id.items[4]];
    if (count.kind != Kind::integer || count.integer < 0) return std::nullopt;
    return StorageId{pickle[id.items[1]].text, pickle[id.items[2]].text, static_cast<uint64_t>(count.integer)};
  }

 private:
  const File& file_;
  const Pickle& pickle_;
  const Storages& storages_;
  Contents contents_;
  std::map<std::string, TensorInfo> tensors_;
  std::set<const PickleNode*> visited_;
};

}  // namespace

// Every storage that the pickle names, with the bytes it should have.
StorageSizes storages_named(const File& file, const Pickle& pickle) {
  StorageSizes found;
  for (const PickleNode& n : pickle.nodes) {
    if (n.kind != Kind::persistent) continue;
    const auto id = StateReader::storage_id(pickle, n);
    const auto dtype = id ? type_named(kStorages, id->type) : std::nullopt;
    if (!dtype) continue;  // complex and quantised ones: their tensors are left out
    const uint64_t size = static_cast<uint64_t>(info(*dtype).bytes);
    if (id->count > file.size() / size)
      fail_in(file, "storage " + in_quotes(id->key) + " should have " + std::to_string(id->count) +
                        " elements, the file has " + std::to_string(file.size()) + " bytes");
    const auto [at, added] = found.emplace(id->key, id->count * size);
    if (!added && at->second != id->count * size)
      fail_in(file, "storage " + in_quotes(id->key) + " is described in two ways");
  }
  return found;
}

Contents read_torch_state(const File& file, const Pickle& pickle, const Storages& storages) {
  return StateReader(file, pickle, storages).read();
}

}  // namespace danqing
