// Z-Image at full size: its own list of parameters against the published file's, its work against the reference count.
#include "model/zimage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/qwen.h"
#include "model/vae.h"

namespace danqing {
namespace {

const std::filesystem::path kFull = std::filesystem::path(DANQING_GOLDEN) / "full";

std::map<std::string, Shape> keys_of(const std::string& file) {
  FILE* pipe = popen(("gzip -dc '" + (kFull / file).string() + "'").c_str(), "r");
  std::string text;
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  pclose(pipe);
  std::map<std::string, Shape> keys;
  for (const auto& row : nlohmann::json::parse(text)) {
    const auto dims = row[1].get<std::vector<int64_t>>();
    keys.emplace(row[0].get<std::string>(), Shape(dims));
  }
  return keys;
}

// Whole parameters of the graphs; of a layer that is read in parts, its parts must fill it.
std::map<std::string, Shape> parameters_of(std::initializer_list<const Graph*> graphs) {
  std::map<std::string, Shape> found;
  std::map<std::string, std::set<std::pair<int64_t, int64_t>>> parts;
  for (const Graph* graph : graphs)
    for (const Node& node : graph->nodes)
      if (const auto* weight = std::get_if<Weight>(&node.op)) {
        const WeightPart& part = weight->parts.front();
        const std::string name = part.name.substr(part.name.find('.') + 1);
        Shape shape = node.type.shape;
        if (part.end >= 0) parts[name].insert({part.begin, part.end}), shape[0] = part.end;
        Shape& whole = found.emplace(name, shape).first->second;
        whole[0] = std::max(whole[0], shape[0]);
      }
  for (const auto& [name, ranges] : parts) {
    int64_t end = 0;
    for (const auto& [begin, to] : ranges) {
      EXPECT_EQ(begin, end) << name;
      end = to;
    }
    EXPECT_EQ(end, found.at(name)[0]) << name;
  }
  return found;
}

int64_t count(const std::map<std::string, Shape>& parameters) {
  int64_t sum = 0;
  for (const auto& [name, shape] : parameters) sum += shape.count();
  return sum;
}

double reference_flops(const std::string& row) {
  std::ifstream file(kFull / "flops.json");
  return nlohmann::json::parse(file)["rows"][row]["flops"].get<double>();
}
int64_t reference_parameters(const std::string& part) {
  std::ifstream file(kFull / "params.json");
  return nlohmann::json::parse(file)["models"]["zimage-turbo"][part]["parameters"].get<int64_t>();
}

class ZImageFullSize : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFull)) GTEST_SKIP() << "no golden data at " << kFull;
  }
};

TEST_F(ZImageFullSize, Transformer) {
  for (int64_t tokens : {512, 32}) {
    ZImageBatch batch;
    batch.captions = {tokens}, batch.steps = 1;
    const ZImageGraphs graphs = zimage({}, batch, {}, "transformer");
    verify(graphs.once), verify(graphs.each);
    const double flops = (work_of(graphs.once).products + work_of(graphs.each).products).value;
    const std::string row = "z-image transformer 1024x1024, " + std::to_string(tokens) + " text tokens";
    EXPECT_NEAR(flops / reference_flops(row), 1, 0.005) << row;
    const auto keys = keys_of("keys_zimage-turbo_transformer.json.gz");
    auto parameters = parameters_of({&graphs.once, &graphs.each});
    for (const char* pad : {"x_pad_token", "cap_pad_token"}) parameters.emplace(pad, keys.at(pad));  // read if needed
    EXPECT_EQ(parameters, keys);
    EXPECT_EQ(count(parameters), reference_parameters("transformer"));
  }
}

TEST_F(ZImageFullSize, PadsAreReadWhereTokensAreMissing) {
  ZImageBatch batch;
  batch.height = batch.width = 130, batch.captions = {20};
  const ZImageGraphs graphs = zimage({}, batch, {}, "transformer");
  EXPECT_EQ(parameters_of({&graphs.once, &graphs.each}), keys_of("keys_zimage-turbo_transformer.json.gz"));
}

// The reference count runs all layers; the last one is never needed.
TEST_F(ZImageFullSize, TextEncoder) {
  const QwenConfig config;
  Graph graph;
  const Build b = Build(graph, {})["text"];
  const Value ids = b.input("ids", {DType::i32, {1, 512}});
  const Value rope = b.input("text rope", {DType::f32, {1, 512, 2 * config.head_size}});
  const std::vector<int64_t> lengths{512};
  b.output("captions", qwen_text(b, ids, rope, config, lengths));
  verify(graph);
  EXPECT_NEAR(work_of(graph).products.value * 36 / 35 / reference_flops("qwen3-4b 512 tokens"), 1, 0.005);
  auto keys = keys_of("keys_zimage-turbo_text_encoder.json.gz");
  EXPECT_EQ(count(keys), reference_parameters("qwen3_4b"));
  std::erase_if(keys, [](const auto& key) {
    return key.first == "model.norm.weight" || key.first.starts_with("model.layers.35.");
  });
  EXPECT_EQ(parameters_of({&graph}), keys);
}

TEST_F(ZImageFullSize, Autoencoder) {
  VaeConfig config;
  config.latent_channels = 16, config.quant_conv = false, config.scale = 0.3611, config.shift = 0.1159;
  for (int64_t side : {512, 1024}) {
    const Graph decode = vae_decode(config, {1, side / 8, side / 8, 16}, {}, "vae");
    const Graph encode = vae_encode(config, {1, side, side, 3}, {}, "vae");
    const std::string size = std::to_string(side) + "x" + std::to_string(side);
    const std::string row = "vae 16-channel (Flux, Z-Image) ";
    EXPECT_NEAR(work_of(decode).products.value / reference_flops(row + "decode " + size), 1, 0.005) << size;
    EXPECT_NEAR(work_of(encode).products.value / reference_flops(row + "encode " + size), 1, 0.005) << size;
    const auto parameters = parameters_of({&decode, &encode});
    EXPECT_EQ(count(parameters), reference_parameters("vae"));
  }
}

}  // namespace
}  // namespace danqing
