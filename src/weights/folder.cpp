// Folders of weights: one component (plain, in a variant, or in shards with an index) and whole diffusers pipelines.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "weights/checkpoint.h"
#include "weights/container.h"
#include "weights/json_text.h"

namespace danqing {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxJson = 64u << 20;

[[noreturn]] void fail_at(const fs::path& path, const std::string& why) {
  throw Error(Fault::file, path.string() + ": " + why);
}

// One way to load a component: a weight file or the index of its shards.
struct Candidate {
  std::string file;
  std::string variant;                // "fp16" in model.fp16.safetensors, model.safetensors.index.fp16.json
  bool index = false, known = false;  // known: named as diffusers and transformers name their files
};

bool is_shard(std::string_view stem) {  // ends with or holds "-00001-of-00004"
  const size_t of = stem.find("-of-");
  return of != std::string_view::npos && of >= 6 && stem[of - 6] == '-' &&
         std::all_of(stem.begin() + of - 5, stem.begin() + of, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<Candidate> candidate(const std::string& file, const std::string& ending) {
  Candidate c{.file = file};
  std::string stem;
  if (file.ends_with(ending)) {
    stem = file.substr(0, file.size() - ending.size());
    if (is_shard(stem)) return std::nullopt;
  } else if (const size_t at = file.find(ending + ".index."); at != std::string::npos && file.ends_with(".json")) {
    c.index = true;
    stem = file.substr(0, at);
    std::string middle = file.substr(at + ending.size() + 6);  // ".json" or ".fp16.json"
    middle.resize(middle.size() - 5);
    if (!middle.empty()) c.variant = middle.substr(1);
  } else {
    return std::nullopt;
  }
  for (const std::string known : {"diffusion_pytorch_model", "pytorch_model", "model"}) {
    if (stem != known && !stem.starts_with(known + ".")) continue;
    c.known = true;
    if (stem.size() > known.size()) c.variant = stem.substr(known.size() + 1);
    break;
  }
  return c;
}

// The asked variant, else the plain one, else the only ones there are (fp16 before others).
std::string chosen_variant(const std::vector<Candidate>& all, const std::string& asked) {
  std::set<std::string> there;
  for (const Candidate& c : all) there.insert(c.variant);
  for (const std::string& wanted : {asked, std::string(), std::string("fp16")})
    if (there.contains(wanted)) return wanted;
  return *there.begin();
}

std::vector<Candidate> candidates(const fs::path& folder, const std::string& ending) {
  std::vector<Candidate> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (auto c = candidate(entry.path().filename().string(), ending)) found.push_back(*c);
  if (failed) fail_at(folder, "the folder cannot be read: " + failed.message());
  if (std::any_of(found.begin(), found.end(), [](auto& c) { return c.known; }))
    std::erase_if(found, [](auto& c) { return !c.known; });
  return found;
}

const char* config_file(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"config.json", "scheduler_config.json", "tokenizer_config.json", "preprocessor_config.json"})
    if (fs::exists(folder / name, ignored)) return name;
  return nullptr;
}

std::string why_nothing(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" && is_shard(entry.path().stem().string()))
      return "the folder holds shards (" + entry.path().filename().string() + ") but not their .safetensors.index.json";
  return "the folder holds neither model_index.json nor a .safetensors or .bin file of weights";
}

}  // namespace

void Checkpoint::add_folder(const fs::path& folder, const std::string& prefix, const OpenOptions& options) {
  std::vector<Candidate> found = candidates(folder, ".safetensors");
  if (found.empty()) found = candidates(folder, ".bin");
  if (found.empty()) fail_at(folder, why_nothing(folder));
  const std::string variant = chosen_variant(found, options.variant);
  if (variant != options.variant)
    notes_.push_back(folder.string() + ": no variant " + in_quotes(options.variant) + ", taking " +
                     (variant.empty() ? "the plain files" : in_quotes(variant)));
  std::erase_if(found, [&](auto& c) { return c.variant != variant; });
  // A whole file beside the shards of the same weights: the index is the newer habit, the file the simpler one.
  const auto whole = std::find_if(found.begin(), found.end(), [](auto& c) { return !c.index; });
  const Candidate& taken = whole != found.end() ? *whole : found.front();
  const auto rivals = std::count_if(found.begin(), found.end(), [&](auto& c) { return c.index == taken.index; });
  if (rivals > 1) {
    std::string names;
    for (const Candidate& c : found) names += (names.empty() ? "" : ", ") + c.file;
    fail_at(folder, "the folder holds several files of weights (" + names + "): name the one to take");
  }
  if (taken.index)
    add_shards(folder / taken.file, prefix);
  else
    add_file(File::open(folder / taken.file), prefix);
  if (const char* name = config_file(folder); name && prefix.empty())
    configs_.emplace("", read_text(folder / name, kMaxJson));
}

void Checkpoint::add_shards(const fs::path& index, const std::string& prefix) {
  const auto json = parse_json_object(read_text(index, kMaxJson), index.string());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) fail_at(index, "has no weight_map of tensors to files");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) fail_at(index, in_quotes(tensor) + " names no file");
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find_first_of("/\\") != std::string::npos || name == ".." || name == ".")
      fail_at(index, in_quotes(tensor) + " lies in " + in_quotes(name) + ", which is no plain file name");
    shards[name].push_back(tensor);
  }
  for (const auto& [file, wanted] : shards) {
    const size_t before = tensors_.size();
    add_file(File::open(index.parent_path() / file), prefix);
    std::set<std::string_view> there;
    for (size_t i = before; i < tensors_.size(); ++i)
      there.insert(std::string_view(tensors_[i].name).substr(prefix.size()));
    for (const std::string& tensor : wanted)
      if (!there.contains(tensor)) fail_at(index, in_quotes(tensor) + " should be in " + file + " but is not there");
  }
}

void Checkpoint::add_pipeline(const OpenOptions& options) {
  const fs::path index = path_ / "model_index.json";
  const std::string text = read_text(index, kMaxJson);
  const auto json = parse_json_object(text, index.string());
  configs_.emplace("", text);
  std::error_code ignored;
  for (const auto& [name, value] : json.items()) {
    // A component is [library, class]; [null, null] is one that this pipeline was saved without.
    if (!value.is_array() || value.size() != 2 || !value[1].is_string()) continue;
    if (name.empty() || name.find_first_of("/\\") != std::string::npos || name[0] == '.')
      fail_at(index, "the component " + in_quotes(name) + " is no plain folder name");
    const fs::path folder = path_ / name;
    if (!fs::is_directory(folder, ignored)) {
      notes_.push_back(index.string() + ": the folder of component " + in_quotes(name) + " is missing");
      continue;
    }
    components_.push_back(name);
    const char* config = config_file(folder);
    if (config) configs_.emplace(name, read_text(folder / config, kMaxJson));
    // Schedulers, tokenizers and the like have a configuration and no weights.
    const bool weightless = candidates(folder, ".safetensors").empty() && candidates(folder, ".bin").empty();
    if (!weightless) add_folder(folder, name + "/", options);
    if (weightless && config && std::string_view(config) == "config.json")
      notes_.push_back(folder.string() + ": no weights in the folder of this component");
  }
  if (tensors_.empty()) fail_at(path_, "no component of model_index.json has weights here");
}

}  // namespace danqing
