#include "hardware/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "hardware/fake_tree.h"
#include "hardware/peak.h"

namespace danqing {
namespace {

TEST(Peak, LoopsDoWhatTheySay) {
  float kept = 0;
  const double flops = peak::multiply_adds(1000, kept);
  EXPECT_GT(kept, 0);
  EXPECT_EQ(peak::multiply_adds(3000, kept), 3 * flops);
  EXPECT_EQ(std::fmod(flops, 1000 * 10 * 2), 0);
  std::vector<uint64_t> words(1024);
  uint64_t sum = 0;
  for (size_t i = 0; i < words.size(); ++i) sum += words[i] = i * 0x9E3779B97F4A7C15u;
  EXPECT_EQ(peak::sum_words(words.data(), words.size()), sum);
  EXPECT_FALSE(peak::instruction_set().empty());
}

// No values are expected of the machine, only that all that is claimed was found.
TEST(Probe, MeasuresWhatTheProcessorHas) {
  FakeTree tree;
  tree.write("small.bin", "x");
  tree.write("weights.bin", std::string(3 << 20, 'w'));
  const Host host = this_host();
  const Machine m = probe(host, {1, tree.path(""), 0.1});
  EXPECT_EQ(m.threads, 1);
  EXPECT_EQ(m.memory, host.limit);
  EXPECT_GT(m.roofs.f32.value, 0);
  EXPECT_GT(m.bandwidth.value, 0);
  EXPECT_GT(m.disk.value, 0);
  EXPECT_EQ(m.roofs.bf16.value > 0, host.isa.bf16_products());
  EXPECT_EQ(m.roofs.int8.value > 0, host.isa.int8_products());
  EXPECT_EQ(m.sources.at("roof_f32").substr(0, 8), "measured");
  EXPECT_EQ(m.roofs.f16.value, 0);
}

TEST(Probe, EstimateSaysSo) {
  const Machine m = estimate(this_host(), 1);
  EXPECT_GT(m.roofs.f32.value, 0);
  EXPECT_GT(m.bandwidth.value, 0);
  EXPECT_EQ(m.sources.at("roof_f32").substr(0, 8), "estimate");
  EXPECT_EQ(m.sources.at("bandwidth").substr(0, 8), "estimate");
}

TEST(Probe, DiskThatCannotBeReadIsUnknown) {
  FakeTree tree;
  tree.write("small.bin", "x");
  EXPECT_EQ(disk_read_rate(tree.path("absent")).value, 0);
  EXPECT_EQ(disk_read_rate(tree.path("small.bin")).value, 0);
  EXPECT_EQ(disk_read_rate("/dev/zero").value, 0);
}

Host some_host(const std::string& cpu) {
  Host host;
  host.cpu = cpu;
  host.threads = 4;
  host.limit = Bytes(kGiB);
  host.limited_by = "test";
  return host;
}

Machine some_machine(int threads, double rate) {
  Machine m;
  m.name = "m";
  m.threads = threads;
  m.memory = Bytes(5);
  m.roofs.f32 = FlopsPerSecond(rate);
  return m;
}

TEST(ProbeCache, KeptByProcessorAndThreads) {
  FakeTree tree;
  const std::string path = tree.path("cache/danqing/machine.json");
  const Host a = some_host("cpu a"), b = some_host("cpu b");
  EXPECT_FALSE(load_machine(path, a, 4, {}));
  save_machine(path, a, some_machine(4, 1e9));
  save_machine(path, a, some_machine(2, 2e9));
  save_machine(path, b, some_machine(4, 3e9));
  save_machine(path, b, some_machine(4, 4e9));  // measured again
  EXPECT_EQ(load_machine(path, a, 0, {})->roofs.f32.value, 1e9);
  EXPECT_EQ(load_machine(path, a, 2, {})->roofs.f32.value, 2e9);
  EXPECT_EQ(load_machine(path, b, 4, {})->roofs.f32.value, 4e9);
  EXPECT_FALSE(load_machine(path, a, 3, {}));
  EXPECT_EQ(load_machine(path, a, 4, {})->memory.value, kGiB);  // today's limit, not the one measured under
  for (const auto& entry : std::filesystem::directory_iterator(tree.path("cache/danqing"))) {
    EXPECT_EQ(entry.path().filename(), "machine.json");
  }
}

TEST(ProbeCache, BrokenFilesAreIgnoredWithANote) {
  FakeTree tree;
  const std::string path = tree.path("machine.json");
  const Host host = some_host("cpu");
  for (const std::string& text :
       {std::string(), std::string("{\"format\": 1, \"machines\": {\"cpu"), std::string("[]"),
        std::string("{\"format\": 2, \"machines\": {}}"), std::string("\0\xff\xfe", 3), std::string(100000, '['),
        std::string("{\"format\": 1, \"machines\": {\"cpu, 4 threads\": {\"name\": 3}}}")}) {
    tree.write("machine.json", text);
    std::string notes;
    EXPECT_FALSE(load_machine(path, host, 4, [&](const std::string& note) { notes += note; }));
    EXPECT_NE(notes.find("machine.json"), std::string::npos) << text.substr(0, 60);
    save_machine(path, host, some_machine(4, 1e9));
    EXPECT_TRUE(load_machine(path, host, 4, {})) << text.substr(0, 60);
  }
}

TEST(ProbeCache, WhereItCannotBeWritten) {
  FakeTree tree;
  tree.write("file", "x");
  EXPECT_THROW(save_machine(tree.path("file/machine.json"), some_host("cpu"), some_machine(4, 1)), Error);
}

TEST(ProbeCache, EstimateUntilMeasured) {
  FakeTree tree;
  const Host host = this_host();
  std::string notes;
  const Note note = [&](const std::string& text) { notes += text; };
  EXPECT_EQ(machine_here(host, 1, tree.path("m.json"), note).sources.at("roof_f32").substr(0, 8), "estimate");
  EXPECT_NE(notes.find("has not been measured"), std::string::npos);
  save_machine(tree.path("m.json"), host, some_machine(1, 7e9));
  notes.clear();
  EXPECT_EQ(machine_here(host, 1, tree.path("m.json"), note).roofs.f32.value, 7e9);
  EXPECT_EQ(notes, "");
}

TEST(ProbeCache, Place) {
  const char* kept_cache = std::getenv("XDG_CACHE_HOME");
  const std::string cache = kept_cache ? kept_cache : "";
  ::setenv("XDG_CACHE_HOME", "/c", 1);
  EXPECT_EQ(machine_cache_path(), "/c/danqing/machine.json");
  ::unsetenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  EXPECT_EQ(machine_cache_path(), home && *home ? std::string(home) + "/.cache/danqing/machine.json" : "");
  if (kept_cache) ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

}  // namespace
}  // namespace danqing
