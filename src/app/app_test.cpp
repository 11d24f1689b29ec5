// The program as a person or a script meets it: what it prints, how it ends, what it leaves.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kSd15 = fs::path(DANQING_GOLDEN) / "pipeline" / "sd15";
const std::string kModel = "'" + (kSd15 / "single.safetensors").string() + "'";

struct Outcome {
  int code = -1;
  std::string out, err;
};

class App : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("danqing-app-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "home");
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string slurp(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string command(const std::string& arguments) const {
    return "cd '" + folder_.string() + "' && HOME='" + (folder_ / "home").string() +
           "' XDG_CACHE_HOME= '" DANQING_PROGRAM "' " + arguments;
  }
  Outcome run(const std::string& arguments) const {
    const int status = std::system((command(arguments) + " >out 2>err").c_str());
    return {WEXITSTATUS(status), slurp(folder_ / "out"), slurp(folder_ / "err")};
  }
  size_t pictures() const {
    size_t n = 0;
    for (const auto& entry : fs::directory_iterator(folder_))
      n += entry.is_regular_file() && entry.path().filename() != "out" && entry.path().filename() != "err";
    return n;
  }
  bool golden() const { return fs::exists(kSd15); }

  fs::path folder_;
};

#define NEED_GOLDEN() \
  if (!golden()) GTEST_SKIP() << "no golden data at " << kSd15

TEST_F(App, HelpFitsAScreen) {
  for (const char* verb : {"", "paint", "price", "inspect", "probe", "samplers", "models", "cards"}) {
    const Outcome o = run(std::string(verb) + " --help");
    EXPECT_EQ(o.code, 0) << verb;
    std::istringstream lines(o.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 130u) << line;
    EXPECT_LE(count, 40) << verb;
    EXPECT_GE(count, 1) << verb;
  }
}

TEST_F(App, MistakesAreOneSentenceAndCodeTwo) {
  for (const char* arguments : {"frobnicate", "paint", "paint x --stps 3", "paint x --steps many", "paint x --size 5",
                                "paint x -m /nowhere.safetensors", "inspect", "inspect /nowhere", "price /nowhere",
                                "paint x --memory much", "cards 'no such card'", "paint x --seed 1.5"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments << o.err;
    EXPECT_NE(o.err.find("danqing: "), std::string::npos) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
  }
  EXPECT_EQ(pictures(), 0u);
}

TEST_F(App, PaintsAndNeverOverwrites) {
  NEED_GOLDEN();
  const std::string request = "paint 'a red fox' -m " + kModel + " --size 64x64 --steps 2 --seed 3 -o fox.png";
  EXPECT_EQ(run(request).code, 0);
  const std::string first = slurp(folder_ / "fox.png");
  const Outcome again = run(request);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--overwrite"), std::string::npos);
  EXPECT_EQ(run(request + " --overwrite").code, 0);
  EXPECT_EQ(slurp(folder_ / "fox.png"), first);
  EXPECT_EQ(run("paint --again fox.png -o twin.png -q").code, 0);
  EXPECT_EQ(slurp(folder_ / "twin.png"), first);
  EXPECT_EQ(run("paint 'a red fox' -m " + kModel + " --size 64x64 --steps 1 --batch 2 --count 2 -q").code, 0);
  EXPECT_EQ(pictures(), 6u);
  EXPECT_EQ(run("paint x -m " + kModel + " --size 64x64 --steps 1 -o missing/x.png").code, 2);
  EXPECT_EQ(run("paint x -m " + kModel + " --size 64x64 --steps 1 -o x.bmp").code, 2);
}

TEST_F(App, PriceAndReportHaveTheSameShape) {
  NEED_GOLDEN();
  const std::string options = " --size 96x64 --steps 2 --seed 3";
  const Outcome priced = run("price " + kModel + options + " --json");
  ASSERT_EQ(priced.code, 0) << priced.err;
  const json price = json::parse(priced.out);
  ASSERT_EQ(run("paint x -m " + kModel + options + " -q -o x.png --report r.json").code, 0);
  const json report = json::parse(slurp(folder_ / "r.json"));
  for (const json* j : {&price, &report}) {
    const json& memory = (*j)["memory"];
    for (const char* key : {"peak_bytes", "weights_bytes", "arena_bytes", "io_bytes", "base_bytes"})
      EXPECT_TRUE(memory[key].is_number()) << key;
    EXPECT_GT((*j)["work"]["flops"].get<double>(), 0);
    EXPECT_TRUE((*j)["fits"].get<bool>());
    EXPECT_TRUE((*j)["request"].is_object() && (*j)["machine"].is_object());
    std::set<std::string> names;
    for (const json& phase : (*j)["work"]["phases"]) names.insert(phase["name"].get<std::string>());
    for (const char* name : {"load", "encode", "denoise", "decode"}) EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(report["measured"]["allocated_peak_bytes"].get<int64_t>(),
            report["memory"]["peak_bytes"].get<int64_t>() - report["memory"]["base_bytes"].get<int64_t>());
  EXPECT_EQ(price["work"]["flops"], report["work"]["flops"]);
  ASSERT_EQ(run("paint x -m " + kModel + options + " -q -o y.png --report r.html").code, 0);
  EXPECT_NE(slurp(folder_ / "r.html").find("<svg"), std::string::npos);
}

TEST_F(App, DoesNotFitIsCodeThreeWithRemedies) {
  NEED_GOLDEN();
  const Outcome o = run("paint x -m " + kModel + " --size 1024x1024 --vae-tile off --memory 150MiB");
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("does not fit"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("--size"), std::string::npos) << o.err;
  const Outcome price = run("price " + kModel + " --size 1024x1024 --vae-tile off --memory 150MiB --json");
  EXPECT_EQ(price.code, 3);
  EXPECT_FALSE(json::parse(price.out)["fits"].get<bool>());
  EXPECT_EQ(pictures(), 0u);
}

TEST_F(App, InspectCounts) {
  NEED_GOLDEN();
  const Outcome o = run("inspect " + kModel + " --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const json j = json::parse(o.out);
  EXPECT_TRUE(j["missing"].empty() && j["mismatched"].empty());
  EXPECT_EQ(j["components"].size(), 3u);
  const Outcome lora = run("inspect '" + (kSd15 / "lora_kohya.safetensors").string() + "'");
  EXPECT_EQ(lora.code, 2);
  EXPECT_NE(lora.err.find("LoRA"), std::string::npos);
}

TEST_F(App, CtrlCStopsSoonAndLeavesNothing) {
  NEED_GOLDEN();
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/bash", "bash", "-c",
          ("cd '" + folder_.string() + "' && HOME=home exec '" DANQING_PROGRAM "' paint x -m " + kModel +
           " --size 512x512 --steps 1000 -o x.png -q 2>err")
              .c_str(),
          nullptr);
    _exit(99);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(pictures(), 0u);
}

TEST_F(App, AFullDiskLeavesNoHalfPicture) {
  NEED_GOLDEN();
  const int status = std::system(("cd '" + folder_.string() +
                                  "' && bash -c \"ulimit -f 4; HOME=home '" DANQING_PROGRAM "' paint x -m " + kModel +
                                  " --size 256x256 --steps 1 -o x.png -q 2>err\"")
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2) << slurp(folder_ / "err");
  EXPECT_EQ(pictures(), 0u);
}

}  // namespace
