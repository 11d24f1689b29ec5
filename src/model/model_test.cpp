#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/inventory.h"
#include "model/read_config.h"
#include "model/stable_diffusion.h"

namespace danqing {
namespace {

const std::filesystem::path kGolden = DANQING_GOLDEN;

// A file with the true header of a full-size checkpoint and no data: costs no disk.
std::filesystem::path sparse_checkpoint(const std::string& keys_file, const std::string& name) {
  const std::string command = "gzip -dc '" + (kGolden / "full" / keys_file).string() + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  pclose(pipe);
  nlohmann::ordered_json header;
  uint64_t offset = 0;
  for (const auto& row : nlohmann::json::parse(text)) {
    uint64_t bytes = 2;
    for (uint64_t d : row[1]) bytes *= d;
    header[row[0].get<std::string>()] = {
        {"dtype", "F16"}, {"shape", row[1]}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  const std::string json = header.dump();
  const auto path = std::filesystem::temp_directory_path() / (name + std::to_string(getpid()) + ".safetensors");
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = json.size();
  file.write(reinterpret_cast<const char*>(&length), 8) << json;
  file.close();
  std::filesystem::resize_file(path, 8 + length + offset);
  return path;
}

class FullSize : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::filesystem::exists(kGolden)) path_ = sparse_checkpoint("keys_sd15_single.json.gz", "sd15");
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }
  void SetUp() override {
    if (path_.empty()) GTEST_SKIP() << "no golden data at " << kGolden;
  }
  static inline std::filesystem::path path_;
};

TEST_F(FullSize, Sd15IsWholeAndCounted) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  const Model model = identify(checkpoint);
  EXPECT_EQ(model.unet.levels, (std::vector<UnetLevel>{{320, 1, 8}, {640, 1, 8}, {1280, 1, 8}, {1280, 0, 8}}));
  EXPECT_EQ(model.text, std::vector<TextEncoder>{TextEncoder{}});
  EXPECT_EQ(model.vae, VaeConfig{});
  Canvas canvas;
  canvas.encoded_pictures = 1;
  const Program program = stable_diffusion(model, canvas, {});
  for (const Phase& phase : program.phases) verify(phase.graph);
  const Inventory inventory = take_inventory(model, {&program});
  EXPECT_TRUE(inventory.missing.empty()) << inventory.missing.front();
  EXPECT_TRUE(inventory.mismatched.empty()) << inventory.mismatched.front();
  EXPECT_TRUE(inventory.unused.empty()) << inventory.unused.front();
  std::map<std::string, int64_t> counts;
  for (const auto& c : inventory.components) counts[c.name] = c.parameters;
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"text", 123060480}, {"unet", 859520964}, {"vae", 83653863}}));
}

TEST_F(FullSize, Sd15WorkEqualsTheReferenceCount) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  const Model model = identify(checkpoint);
  std::ifstream file(kGolden / "full" / "flops.json");
  const auto rows = nlohmann::json::parse(file)["rows"];
  const auto near = [](double is, double should, const char* what) { EXPECT_NEAR(is / should, 1, 0.005) << what; };
  const auto flops = [&](const char* row) { return rows[row]["flops"].get<double>(); };
  for (int64_t side : {512, 768}) {
    Canvas canvas{side, side};
    canvas.encoded_pictures = 1;
    const Program program = stable_diffusion(model, canvas, {});
    const std::string size = std::to_string(side) + "x" + std::to_string(side);
    near(work_of(program.phase("denoise").graph).products.value, flops(("sd15 unet " + size + " batch 2").c_str()),
         "unet");
    if (side != 512) continue;
    near(work_of(program.phase("decode").graph).products.value, flops("vae 4-channel (SD) decode 512x512"), "decode");
    near(work_of(program.phase("encode_image").graph).products.value, flops("vae 4-channel (SD) encode 512x512"),
         "encode");
    near(work_of(program.phase("encode").graph).products.value, 2 * flops("clip-l 77 tokens"), "text");
  }
}

TEST(Identify, FolderAndSingleFileAgree) {
  const auto root = kGolden / "pipeline" / "sd15";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no golden data at " << kGolden;
  const Checkpoint single = Checkpoint::open(root / "single.safetensors"),
                   folder = Checkpoint::open(root / "diffusers");
  const Model a = identify(single), b = identify(folder);
  EXPECT_EQ(a.unet, b.unet);
  EXPECT_EQ(a.vae, b.vae);
  EXPECT_EQ(a.text, b.text);
  Canvas canvas{128, 128};
  canvas.encoded_pictures = 1;
  for (const Model* m : {&a, &b}) {
    const Program program = stable_diffusion(*m, canvas, {});
    const Inventory inventory = take_inventory(*m, {&program});
    EXPECT_TRUE(inventory.missing.empty()) << inventory.missing.front();
    EXPECT_TRUE(inventory.mismatched.empty()) << inventory.mismatched.front();
    EXPECT_TRUE(inventory.unused.empty()) << inventory.unused.front();
  }
}

TEST(Tiles, CoverTheWholeAndOverlap) {
  EXPECT_EQ(tile_starts(64, 0), (std::vector<int64_t>{0}));
  EXPECT_EQ(tile_starts(64, 64), (std::vector<int64_t>{0}));
  EXPECT_EQ(tile_starts(64, 32), (std::vector<int64_t>{0, 24, 32}));
  for (int64_t size : {5, 17, 63, 100})
    for (int64_t tile : {1, 4, 8, 16}) {
      const auto starts = tile_starts(size, tile);
      EXPECT_GE(starts.back() + tile, size);
      for (size_t i = 1; i < starts.size(); ++i) EXPECT_LE(starts[i], starts[i - 1] + tile);
    }
}

TEST(SdxlFullSize, IsWholeAndCounted) {
  if (!std::filesystem::exists(kGolden)) GTEST_SKIP() << "no golden data at " << kGolden;
  const auto path = sparse_checkpoint("keys_sdxl_single.json.gz", "sdxl");
  {
    const Checkpoint checkpoint = Checkpoint::open(path);
    const Model model = identify(checkpoint);
    EXPECT_EQ(model.family, Family::sdxl);
    Canvas canvas;
    canvas.width = canvas.height = 1024;
    canvas.encoded_pictures = 1;
    const Program program = stable_diffusion(model, canvas, {}), spare = whole_text_encoders(model);
    const Inventory inventory = take_inventory(model, {&program}, {&spare});
    EXPECT_TRUE(inventory.missing.empty()) << inventory.missing.front();
    EXPECT_TRUE(inventory.mismatched.empty()) << inventory.mismatched.front();
    EXPECT_TRUE(inventory.unused.empty()) << inventory.unused.front();
    std::map<std::string, int64_t> counts;
    for (const auto& c : inventory.components) counts[c.name] = c.parameters;
    EXPECT_EQ(counts["unet"], 2567463684);
    EXPECT_EQ(counts["vae"], 83653863);
    std::ifstream file(kGolden / "full" / "flops.json");
    const auto rows = nlohmann::json::parse(file)["rows"];
    // The reference counts the text's keys and values in every evaluation; here they are products of `prepare`.
    const double products =
        work_of(program.phase("denoise").graph).products.value + work_of(program.phase("prepare").graph).products.value;
    EXPECT_NEAR(products / rows["sdxl unet 1024x1024 batch 2"]["flops"].get<double>(), 1, 0.005);
  }
  std::filesystem::remove(path);
}

TEST(Validate, RefusesSizesThatNoGraphCanHave) {
  UnetConfig unet;
  unet.levels = {{320, 1, 8}}, unet.middle = {320, 1, 8};
  EXPECT_NO_THROW(validate(unet, "x"));
  const auto refused = [](auto config, auto&& change) {
    change(config);
    EXPECT_THROW(validate(config, "x"), Error);
  };
  refused(unet, [](UnetConfig& c) { c.levels[0].channels = 33; });
  refused(unet, [](UnetConfig& c) { c.levels[0].heads = 0; });
  refused(unet, [](UnetConfig& c) { c.levels[0].depth = 1 << 20; });
  refused(unet, [](UnetConfig& c) { c.middle.heads = 7; });
  refused(unet, [](UnetConfig& c) { c.levels.clear(); });
  refused(VaeConfig{}, [](VaeConfig& c) { c.channels.assign(32, 128); });
  refused(VaeConfig{}, [](VaeConfig& c) { c.channels = {100}; });
  refused(ClipConfig{}, [](ClipConfig& c) { c.heads = 5; });
  refused(ClipConfig{}, [](ClipConfig& c) { c.positions = 64; });
  refused(ClipConfig{}, [](ClipConfig& c) { c.vocabulary = 100; });
}

}  // namespace
}  // namespace danqing
