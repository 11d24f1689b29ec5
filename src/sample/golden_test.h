// For this room's tests: reads the reference tensors and their descriptions.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace danqing {

class Golden {
 public:
  explicit Golden(const std::string& stem) : stem_(std::string(DANQING_GOLDEN) + "/" + stem) {}
  bool present() const { return std::filesystem::exists(stem_ + ".safetensors"); }
  const std::string& stem() const { return stem_; }

  void read() {
    std::ifstream(stem_ + ".json") >> about;
    std::ifstream file(stem_ + ".safetensors", std::ios::binary);
    uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), 8);
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    const nlohmann::json rows = nlohmann::json::parse(header);
    for (const auto& [name, row] : rows.items()) {
      if (name == "__metadata__") continue;
      const uint64_t begin = row["data_offsets"][0], end = row["data_offsets"][1];
      std::string raw(end - begin, ' ');
      file.seekg(static_cast<std::streamoff>(8 + length + begin));
      file.read(raw.data(), static_cast<std::streamsize>(raw.size()));
      const std::string type = row["dtype"];
      auto& out = tensors[name];
      if (type == "F32")
        fill<float>(raw, out);
      else if (type == "F64")
        fill<double>(raw, out);
      else if (type == "I64")
        fill<int64_t>(raw, out);
    }
  }
  std::vector<float> floats(const std::string& name) const {
    const auto& v = tensors.at(name);
    return {v.begin(), v.end()};
  }

  nlohmann::json about;
  std::map<std::string, std::vector<double>> tensors;

 private:
  template <class T>
  static void fill(const std::string& raw, std::vector<double>& out) {
    std::vector<T> values(raw.size() / sizeof(T));
    std::memcpy(values.data(), raw.data(), raw.size());
    out.assign(values.begin(), values.end());
  }
  std::string stem_;
};

#define READ_GOLDEN(variable, path)                                                    \
  Golden variable(path);                                                               \
  if (!variable.present()) GTEST_SKIP() << "no reference data at " << variable.stem(); \
  variable.read()

}  // namespace danqing
