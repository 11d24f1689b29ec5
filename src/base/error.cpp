#include "base/error.h"

namespace danqing {

void check_failed(const char* condition, const char* file, int line) {
  std::string path = file;
  if (auto at = path.rfind("src/"); at != std::string::npos) path = path.substr(at);
  throw Bug("this is a bug in danqing: " + path + ":" + std::to_string(line) + ": " + condition);
}

}  // namespace danqing
