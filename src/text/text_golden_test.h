// The reference files of the text room, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace danqing {

inline std::filesystem::path golden(const std::string& name) { return std::filesystem::path(DANQING_GOLDEN) / name; }

inline std::filesystem::path tokenizer_data() { return std::filesystem::path(DANQING_SOURCE) / "data" / "tokenizer"; }

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// The tensors of a safetensors file as double, whatever their type (I64, F32, F64). Keys name/shape are the file's.
class GoldenTensors {
 public:
  explicit GoldenTensors(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), 8);
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    header_ = nlohmann::json::parse(header);
    data_.assign(std::istreambuf_iterator<char>(file), {});
  }

  std::vector<double> get(const std::string& name) const {
    const auto& entry = header_.at(name);
    const std::string type = entry.at("dtype");
    return type == "F32" ? read<float>(entry) : type == "F64" ? read<double>(entry) : read<int64_t>(entry);
  }

 private:
  template <class T>
  std::vector<double> read(const nlohmann::json& entry) const {
    const size_t begin = entry.at("data_offsets")[0], end = entry.at("data_offsets")[1];
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), data_.data() + begin, values.size() * sizeof(T));
    return {values.begin(), values.end()};
  }

  nlohmann::json header_;
  std::string data_;
};

#define DANQING_NEEDS_GOLDEN(name) \
  if (!std::filesystem::exists(golden(name))) GTEST_SKIP() << "reference file missing: " << golden(name)

}  // namespace danqing
