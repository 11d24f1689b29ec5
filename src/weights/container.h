// What a reader of one container gives back, and the checks that all readers share. Inside the weights room only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"

namespace danqing {

struct FileRange {
  uint64_t begin = 0, size = 0;
};

struct Contents {
  std::vector<TensorInfo> tensors;  // any order, `file` not set; names unique
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<std::string> notes;
};

Contents read_safetensors(const File& file);
Contents read_gguf(const File& file);
Contents read_zip_checkpoint(const File& file);     // torch.save since 1.6
Contents read_legacy_checkpoint(const File& file);  // torch.save before: a stream of pickles

// The name in quotes, cut, valid UTF-8 and without control characters, so that a hostile one cannot flood or garble a
// message.
std::string in_quotes(std::string_view name);

[[noreturn]] void fail_in(const File& file, const std::string& why);

// The sizes as a Shape; more than Shape::kMaxRank or a count past 2^63 is an Error that names the tensor.
Shape checked_shape(const File& file, std::string_view tensor, std::span<const uint64_t> sizes);

}  // namespace danqing
