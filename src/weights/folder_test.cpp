#include <set>

#include "weights/checkpoint.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

using std::string;

string one(const string& name) {
  return safetensors("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "d");
}

class Folder : public testing::Test {
 protected:
  string refused(const std::filesystem::path& path) {
    return refusal([&] { Checkpoint::open(path); });
  }
  Scratch scratch;
};

TEST_F(Folder, OpensADiffusersPipeline) {
  const std::filesystem::path path = DANQING_GOLDEN "/pipeline/sd15/diffusers";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path;
  const auto c = Checkpoint::open(path);
  EXPECT_NE(c.find("unet/conv_in.weight"), nullptr);
  EXPECT_NE(c.find("vae/decoder.conv_in.weight"), nullptr);
  EXPECT_NE(c.find("text_encoder/text_model.embeddings.token_embedding.weight"), nullptr);
  for (const char* name : {"unet", "vae", "text_encoder", "scheduler", "tokenizer", ""})
    EXPECT_NE(c.config(name), nullptr) << name;
  EXPECT_EQ(c.components(), (std::vector<string>{"scheduler", "text_encoder", "tokenizer", "unet", "vae"}));
  EXPECT_TRUE(c.notes().empty()) << c.notes()[0];
}

TEST_F(Folder, OpensShardsAsOneCheckpoint) {
  const std::filesystem::path path = DANQING_GOLDEN "/pipeline/sd15/formats/sharded_vae";
  const std::filesystem::path whole = DANQING_GOLDEN "/pipeline/sd15/diffusers/vae";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path;
  const auto shards = Checkpoint::open(path), single = Checkpoint::open(whole);
  EXPECT_EQ(shards.files().size(), 4u);
  EXPECT_NE(shards.config(""), nullptr);
  ASSERT_EQ(shards.tensors().size(), single.tensors().size());
  for (const TensorInfo& t : shards.tensors()) {
    const TensorInfo* twin = single.find(t.name);
    ASSERT_NE(twin, nullptr) << t.name;
    std::vector<std::byte> a(t.bytes), b(twin->bytes);
    shards.read(t, a);
    single.read(*twin, b);
    EXPECT_EQ(a, b) << t.name;
  }
}

TEST_F(Folder, RefusesABrokenIndex) {
  const string index = "c/model.safetensors.index.json";
  scratch.write("c/a.safetensors", one("x"));
  const auto with = [&](const string& text) {
    scratch.write(index, text);
    return refused(scratch.path() / "c");
  };
  EXPECT_EQ(with(R"({"weight_map":{"x":"a.safetensors"}})"), "");
  EXPECT_NE(with(R"({"weight_map":{"y":"a.safetensors"}})").find("\"y\" should be in a.safetensors"), string::npos);
  EXPECT_NE(with(R"({"weight_map":{"x":"../a.safetensors"}})").find("no plain file name"), string::npos);
  EXPECT_NE(with(R"({"weight_map":{"x":"b.safetensors"}})").find("b.safetensors: no such file"), string::npos);
  EXPECT_NE(with(R"({"weight_map":3})").find("no weight_map"), string::npos);
  EXPECT_NE(with(R"({"weight_map":{}})").find("no weight_map"), string::npos);
  EXPECT_NE(with("{").find("not valid JSON"), string::npos);
  EXPECT_NE(with("{\"a\":" + string(100000, '[')).find("deeper than 100 levels"), string::npos);
}

TEST_F(Folder, PrefersPlainSafetensorsThenTheVariantAskedOrLeft) {
  const auto has = [&](const string& folder, const string& variant = "") {
    return Checkpoint::open(scratch.path() / folder, {.variant = variant}).tensors().at(0).name;
  };
  scratch.write("a/model.safetensors", one("plain"));
  scratch.write("a/model.fp16.safetensors", one("fp16"));
  scratch.write("a/model.non_ema.safetensors", one("non_ema"));
  scratch.write("a/pytorch_model.bin", "never opened");
  scratch.write("a/stray.safetensors", one("stray"));
  EXPECT_EQ(has("a"), "plain");
  EXPECT_EQ(has("a", "fp16"), "fp16");
  EXPECT_EQ(has("a", "bf16"), "plain");
  scratch.write("b/diffusion_pytorch_model.fp16.safetensors", one("fp16"));
  EXPECT_EQ(has("b"), "fp16");
  scratch.write("c/model-00001-of-00001.fp16.safetensors", one("shard"));
  scratch.write("c/model.safetensors.index.fp16.json",
                R"({"weight_map":{"shard":"model-00001-of-00001.fp16.safetensors"}})");
  EXPECT_EQ(has("c"), "shard");
  scratch.write("d/one.safetensors", one("one"));
  EXPECT_EQ(has("d"), "one");
  scratch.write("d/two.safetensors", one("two"));
  EXPECT_NE(refused(scratch.path() / "d").find("several files of weights"), string::npos);
}

TEST_F(Folder, SaysThatTheIndexOfShardsIsMissing) {
  scratch.write("s/model-00001-of-00002.safetensors", one("x"));
  EXPECT_NE(refused(scratch.path() / "s").find("but not their .safetensors.index.json"), string::npos);
}

TEST_F(Folder, SaysWhatAPipelineLacks) {
  scratch.write("p/model_index.json",
                R"({"_class_name":"X","unet":["d","U"],"vae":["d","V"],"safety_checker":[null,null]})");
  EXPECT_NE(refused(scratch.path() / "p").find("no component"), string::npos);
  scratch.write("p/unet/diffusion_pytorch_model.safetensors", one("w"));
  const auto c = Checkpoint::open(scratch.path() / "p");
  EXPECT_NE(c.find("unet/w"), nullptr);
  ASSERT_EQ(c.notes().size(), 1u);
  EXPECT_NE(c.notes()[0].find("component \"vae\" is missing"), string::npos);
  scratch.write("p/model_index.json", R"({"../unet":["d","U"]})");
  EXPECT_NE(refused(scratch.path() / "p").find("no plain folder name"), string::npos);
}

}  // namespace
}  // namespace danqing
