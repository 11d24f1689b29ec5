// One door for every container of weights: safetensors, GGUF, pickled .ckpt/.pt/.bin, sharded and diffusers folders.
// What a file is, its content says, not its ending. Opening reads headers only; tensor data is read by position, never
// mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/shape.h"

namespace danqing {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int file = 0;                  // index into Checkpoint::files()
  uint64_t offset = 0;           // of the first element, from the start of the file
  uint64_t bytes = 0;            // when dense, as read() delivers it
  std::optional<Shape> strides;  // in elements, only where a pickled tensor is not dense in row-major order
};

struct OpenOptions {
  std::string variant;  // of a folder's files ("fp16"); empty: the plain ones, or the only ones there are
};

class Checkpoint {
 public:
  // A file or a folder. Throws Error(Fault::file) that names the file, the tensor and the cause.
  //
  // Where this is kinder than the reference safetensors reader: values in `__metadata__` that are not strings are left
  // out with a note; tensors of types danqing has no use for (U16, U32, U64, ...) are checked, left out and noted.
  // Tensors of more than five dimensions are refused by name.
  //
  // A folder with model_index.json is a pipeline: its tensors are named "component/tensor", such as
  // "unet/conv_in.weight". A folder with the weights of one component (config.json, shards) has no such prefix.
  static Checkpoint open(const std::filesystem::path& path, const OpenOptions& options = {});
  static Checkpoint open(File file);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name
  const TensorInfo* find(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  const std::vector<File>& files() const { return files_; }
  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& notes() const { return notes_; }  // what was left out or looks odd: warnings
  const std::vector<std::string>& components() const { return components_; }  // of a pipeline folder, else empty

  // Configuration of a component as JSON text: of a pipeline folder the component's config.json ("scheduler" has
  // scheduler_config.json, tokenizers tokenizer_config.json, "" model_index.json); of a component's own folder
  // config("") is its config.json; of a single file the component's object inside the metadata key `danqing.config`.
  const std::string* config(std::string_view component) const;

  // Elements in row-major order, tensor.bytes bytes into `out`. Threads may read at once.
  void read(const TensorInfo& tensor, std::span<std::byte> out) const;
  // `count` rows of the outermost axis, from `first` on; out.size() is count / shape[0] of tensor.bytes.
  void read_rows(const TensorInfo& tensor, int64_t first, int64_t count, std::span<std::byte> out) const;

 private:
  Checkpoint() = default;
  void add_file(File file, const std::string& prefix);
  void add_folder(const std::filesystem::path& folder, const std::string& prefix, const OpenOptions& options);
  void add_shards(const std::filesystem::path& index, const std::string& prefix);
  void add_pipeline(const OpenOptions& options);
  void finish();
  void read_strided(const TensorInfo& tensor, int64_t first, int64_t count, std::span<std::byte> out) const;

  std::filesystem::path path_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::vector<File> files_;
  std::vector<std::string> notes_;
  std::vector<std::string> components_;
  std::map<std::string, std::string, std::less<>> configs_;
};

}  // namespace danqing
