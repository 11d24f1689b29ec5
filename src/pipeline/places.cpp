#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "pipeline/job.h"

namespace danqing {

// Installed: beside the program (../share/danqing). While building: the source folder.
Places find_places() {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  if (const char* set = std::getenv("DANQING_DATA")) roots.emplace_back(set);
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!none) roots.push_back(program.parent_path().parent_path() / "share" / "danqing");
  roots.emplace_back(DANQING_SOURCE);
  for (const fs::path& root : roots) {
    const fs::path data = fs::exists(root / "data", none) ? root / "data" : root;
    if (fs::exists(data / "tokenizer", none)) return {data.string(), (root / "models").string()};
  }
  throw Error(Fault::file,
              "danqing's data folder (tokenizer vocabularies) is not beside the program; set DANQING_DATA to it");
}

}  // namespace danqing
