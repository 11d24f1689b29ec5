// Reads the gzip-compressed vocabulary files of data/tokenizer.
#pragma once

#include <filesystem>
#include <string>

namespace danqing {

// The uncompressed content. Throws Error(file) where the file is missing, broken, cut short or above 64 MiB
// uncompressed.
std::string read_gzip(const std::filesystem::path& path);

}  // namespace danqing
