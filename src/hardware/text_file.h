// Small text files of /proc and /sys, and the roots they are read under (a test gives a folder of its own).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace danqing {

struct Roots {
  std::string proc = "/proc", sys = "/sys";
};

// At most 1 MiB; nothing if the file cannot be read.
std::optional<std::string> read_text(const std::string& path);

// The first integer of a text; nothing if it begins with none ("max") or with one that does not fit.
std::optional<int64_t> first_integer(const std::string& text);

// The integer after "key:" at the start of a line ("VmRSS:   123 kB").
std::optional<int64_t> value_after(const std::string& text, const std::string& key);

}  // namespace danqing
