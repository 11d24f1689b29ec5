// Writes weight files. The file appears whole or not at all: it is written beside its place and renamed when it is
// done.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace danqing {

struct TensorOut {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

using MetadataOut = std::map<std::string, std::string, std::less<>>;

// Gives the bytes of tensors[index], row-major, in the tensor's type; called once a tensor, one tensor in memory at a
// time.
using FillTensor = std::function<void(size_t index, std::span<std::byte> out)>;

// Throws Error(Fault::request) for a type the format cannot hold or a name that stands twice, Error(Fault::file) when
// writing fails (a full disk, no permission). An exception from `fill` leaves no file behind.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorOut>& tensors,
                       const MetadataOut& metadata, const FillTensor& fill);

// GGUF version 3. Metadata are texts; `architecture` goes to general.architecture. At most four dimensions.
void write_gguf(const std::filesystem::path& path, const std::string& architecture,
                const std::vector<TensorOut>& tensors, const MetadataOut& metadata, const FillTensor& fill);

}  // namespace danqing
