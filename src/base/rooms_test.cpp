// The rooms hold: a source includes only what src/rooms.txt lets its room include.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;
const fs::path kSource = fs::path(DANQING_SOURCE) / "src";

std::map<std::string, std::set<std::string>> read_rooms() {
  std::map<std::string, std::set<std::string>> rooms;
  std::ifstream file(kSource / "rooms.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string room, bar, other;
    words >> room >> bar;
    while (words >> other) rooms[room].insert(other);
    rooms[room].insert(room);
  }
  return rooms;
}

TEST(Rooms, IncludeOnlyWhatTheTableAllows) {
  const auto rooms = read_rooms();
  ASSERT_GT(rooms.size(), 5u);
  int includes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".h" && ending != ".cpp") continue;
    const fs::path relative = entry.path().lexically_relative(kSource);
    const std::string room = relative.begin()->string();
    ASSERT_TRUE(rooms.contains(room)) << relative << " stands in no room of rooms.txt";
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("#include \"")) continue;
      const std::string path = line.substr(10, line.find('"', 10) - 10), other = path.substr(0, path.find('/'));
      ++includes;
      EXPECT_TRUE(rooms.at(room).contains(other)) << relative << " includes " << path;
    }
  }
  EXPECT_GT(includes, 100);
}

}  // namespace
