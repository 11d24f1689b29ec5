#include <nlohmann/json.hpp>

#include "weights/checkpoint.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

using std::string;

struct Case {
  string header;
  size_t data;    // bytes after the header
  string expect;  // part of the refusal; empty: must open
};

class Safetensors : public testing::Test {
 protected:
  string refused(const string& bytes, const string& name = "x.safetensors") {
    const auto path = scratch.write(name, bytes);
    return refusal([&] { Checkpoint::open(path); });
  }
  void check(const Case& c) {
    const string got = refused(safetensors(c.header, string(c.data, 'd')));
    if (c.expect.empty())
      EXPECT_EQ(got, "") << c.header.substr(0, 200);
    else
      EXPECT_NE(got.find(c.expect), string::npos) << c.header.substr(0, 200) << "\n got: " << got;
  }
  Scratch scratch;
};

string entry(const string& name, const string& dtype, const string& shape, const string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST_F(Safetensors, AcceptsWhatTheReferenceAccepts) {
  const string a = entry("a", "F32", "[2]", "[0,8]"), b = entry("b", "U8", "[1]", "[8,9]");
  for (const Case& c : {Case{"{" + b + "," + a + "}", 9}, Case{"{" + entry("a", "F32", "[0]", "[0,0]") + "}", 0},
                        Case{"{" + entry("a", "F32", "[]", "[0,4]") + "}", 4}, Case{"{" + a + "}   ", 8},
                        Case{" {" + a + "}", 8}, Case{"{\"__metadata__\":null," + a + "}", 8},
                        Case{"{\"__metadata__\":{}," + a + "}", 8}, Case{"{\"__metadata__\":{\"k\":\"v\"}}", 0},
                        Case{"{}", 0}, Case{"{" + entry("模型", "F32", "[2]", "[0,8]") + "}", 8},
                        Case{"{" + entry("u", "U8", "[1]", "[0,1]") + "," + entry("f", "F32", "[1]", "[1,5]") + "}", 5},
                        Case{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":{"x":[1,[2]]}}})", 1}})
    check(c);
}

TEST_F(Safetensors, RefusesWhatTheReferenceRefuses) {
  const string a = entry("a", "F32", "[2]", "[0,8]");
  const string deep = string(100000, '[');
  for (const Case& c : {
           Case{"{" + a + "}", 9, "1 bytes after its last tensor"},
           Case{"{" + a + "}", 7, "is cut off: the file has "},
           Case{"{" + entry("a", "F32", "[2]", "[4,12]") + "}", 12, "hole of 4 bytes before \"a\""},
           Case{"{" + a + "," + entry("b", "U8", "[1]", "[9,10]") + "}", 10, "hole of 1 bytes before \"b\""},
           Case{"{" + a + "," + entry("b", "U8", "[2]", "[7,9]") + "}", 9, "\"b\" overlaps with \"a\""},
           Case{"{" + a + "," + entry("b", "F32", "[2]", "[0,8]") + "}", 8, "overlaps with"},
           Case{"{" + a + "," + a + "}", 8, "duplicate key \"a\""},
           Case{R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "duplicate key \"dtype\""},
           Case{R"({"__metadata__":{"k":"1","k":"2"}})", 0, "duplicate key \"k\" in \"__metadata__\""},
           Case{"{" + entry("a", "F32", "[1000,1000]", "[0,16]") + "}", 16,
                "\"a\" is [1000,1000] F32 but has 16 bytes"},
           Case{"{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0, "\"a\" has sizes whose product"},
           Case{"{" + entry("a", "F32", "[0,9223372036854775807,8]", "[0,0]") + "}", 0, "product is past 2^63"},
           Case{"{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8, "\"a\" ends before it begins"},
           Case{"{" + entry("a", "F32", "[-2]", "[0,8]") + "}", 8, "\"a\" has the negative number -2 in shape"},
           Case{"{" + entry("a", "F32", "[2]", "[0.0,8]") + "}", 8, "\"a\" has \"0.0\" in data_offsets"},
           Case{"{" + entry("a", "F32", "[[2]]", "[0,8]") + "}", 8, "\"a\" has an array in shape"},
           Case{"{" + entry("a", "F32", "[2]", "[0,8,9]") + "}", 8, "two data_offsets"},
           Case{"{" + entry("a", "F33", "[2]", "[0,8]") + "}", 8, "\"a\" has the unknown type \"F33\""},
           Case{"{" + entry("a", "U8", "[1,1,1,1,1,1]", "[0,1]") + "}", 1, "\"a\" has 6 dimensions"},
           Case{R"({"a":{"dtype":"U8","shape":[1]}})", 1, "\"a\" needs dtype, shape and two data_offsets"},
           Case{R"({"a":[1]})", 1, "\"a\" is an array"},
           Case{R"({"a":null})", 1, "\"a\" is null"},
           Case{string("{" + a + "}") + string(3, '\0'), 8, "NUL bytes"},
           Case{"\xef\xbb\xbf{" + a + "}", 8, "byte order mark"},
           Case{"{\"a\xff\":1}", 0, "not valid JSON"},
           Case{"{" + a + "}x", 8, "not valid JSON"},
           Case{"[1]", 0, "not a JSON object"},
           Case{"{\"a\":" + deep, 0, "is an array"},
           Case{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":)" + deep, 1, "deeper than 100 levels"},
           Case{deep, 0, "not a JSON object"},
       })
    check(c);
}

TEST_F(Safetensors, RefusesHeaderLengthsThatLie) {
  const string rest = "{}" + string(30, ' ');
  EXPECT_NE(refused(little(0, 8) + rest).find("header of 0 bytes"), string::npos);
  EXPECT_NE(refused(little(33, 8) + rest).find("has 40 bytes, the header needs 41"), string::npos);
  for (uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 63, uint64_t{100'000'001}})
    EXPECT_NE(refused(little(length, 8) + rest).find("the cap is 100000000"), string::npos) << length;
  EXPECT_NE(refused(string("\x10\0\0\0\0\0\0", 7)).find("has 7 bytes"), string::npos);
  EXPECT_NE(refused("").find("is empty (0 bytes)"), string::npos);
}

TEST_F(Safetensors, NamesWhatAFileReallyIs) {
  EXPECT_NE(refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n").find("Git LFS"),
            string::npos);
  EXPECT_NE(refused("\n <!DOCTYPE html><html></html>").find("web page"), string::npos);
  EXPECT_NE(refused("<HTML><body>404</body>").find("web page"), string::npos);
  EXPECT_NE(refused(R"({"error":"not found, log in"})").find("JSON text"), string::npos);
  EXPECT_NE(refused("\x1f\x8b\x08 and so on and on").find("gzip"), string::npos);
  EXPECT_EQ(refused(safetensors("{}", ""), "x.ckpt"), "");
}

TEST_F(Safetensors, PassesOverOddMetadataWithANote) {
  const auto notes = [&](const string& metadata) {
    return Checkpoint::open(scratch.write("m", safetensors("{\"__metadata__\":" + metadata + "}", ""))).notes().size();
  };
  EXPECT_EQ(notes("null"), 0u);
  EXPECT_EQ(notes("{\"a\":\"b\"}"), 0u);
  EXPECT_EQ(notes("{\"a\":1}"), 1u);
  EXPECT_EQ(notes("{\"a\":{\"b\":\"c\"},\"d\":[\"x\"]}"), 2u);
  EXPECT_EQ(notes("7"), 1u);
  EXPECT_EQ(notes("[\"x\"]"), 1u);
  const auto c = Checkpoint::open(scratch.write("m", safetensors(R"({"__metadata__":{"a":1,"b":"two"}})", "")));
  EXPECT_EQ(c.metadata(), (decltype(c.metadata()){{"b", "two"}}));
}

TEST_F(Safetensors, LeavesOutTypesWithoutAUse) {
  const string header = "{" + entry("a", "U64", "[1]", "[0,8]") + "," + entry("b", "U8", "[1]", "[8,9]") + "}";
  const auto c = Checkpoint::open(scratch.write("x", safetensors(header, string(9, 'd'))));
  EXPECT_EQ(c.find("a"), nullptr);
  ASSERT_NE(c.find("b"), nullptr);
  ASSERT_EQ(c.notes().size(), 1u);
  EXPECT_NE(c.notes()[0].find("\"a\" is of type U64"), string::npos);
}

TEST_F(Safetensors, ReadsUnsortedAndUnalignedData) {
  const string header = "{" + entry("z", "F32", "[2,1]", "[1,9]") + "," + entry("a", "U8", "[1]", "[0,1]") + "}";
  const float values[] = {1.5f, -2.f};
  const auto c = Checkpoint::open(
      scratch.write("x", safetensors(header, "u" + string(reinterpret_cast<const char*>(values), sizeof values))));
  float got[2] = {};
  c.read(*c.find("z"), std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got[0], 1.5f);
  EXPECT_EQ(got[1], -2.f);
  c.read_rows(*c.find("z"), 1, 1, std::as_writable_bytes(std::span(got, 1)));
  EXPECT_EQ(got[0], -2.f);
}

TEST_F(Safetensors, SurvivesAFileThatIsCutWhileOpen) {
  const auto path =
      scratch.write("x", safetensors("{" + entry("a", "U8", "[100000]", "[0,100000]") + "}", string(100000, 'd')));
  const auto c = Checkpoint::open(path);
  std::filesystem::resize_file(path, 500);
  std::vector<std::byte> out(100000);
  EXPECT_NE(refusal([&] { c.read(c.tensors()[0], out); }).find("ends at byte 500"), string::npos);
}

TEST_F(Safetensors, OpensManyTensorsAndHugeSparseFilesByTheirHeader) {
  string header = "{\"big\":{\"dtype\":\"F16\",\"shape\":[3500000000],\"data_offsets\":[0,7000000000]}";
  for (int i = 0; i < 50000; ++i) {
    const string at = std::to_string(7000000000 + i), end = std::to_string(7000000001 + i);
    header += "," + entry("tensor.number." + std::to_string(i), "U8", "[1]", "[" + at + "," + end + "]");
  }
  header += "}";
  const auto path = scratch.write("x", safetensors(header, ""));
  std::filesystem::resize_file(path, 8 + header.size() + 7000050000);
  const auto c = Checkpoint::open(path);
  EXPECT_EQ(c.tensors().size(), 50001u);
  EXPECT_EQ(c.find("big")->bytes, 7000000000u);
}

TEST_F(Safetensors, RefusesPathsThatAreNoFiles) {
  std::filesystem::create_directory(scratch.path() / "x.safetensors");
  EXPECT_NE(refusal([&] { Checkpoint::open(scratch.path() / "x.safetensors"); }).find("the folder holds neither"),
            string::npos);
  std::filesystem::create_symlink("nowhere", scratch.path() / "link");
  EXPECT_NE(refusal([&] { Checkpoint::open(scratch.path() / "link"); }).find("is a link to nowhere"), string::npos);
  EXPECT_NE(refusal([&] { Checkpoint::open(scratch.path() / "gone"); }).find("no such file"), string::npos);
  const string odd = "模型 é (v1.0) #1 100% 'q'.safetensors";
  EXPECT_EQ(refused(safetensors("{}", ""), odd), "");
}

TEST_F(Safetensors, ReadsTheConfigurationStampedIntoASingleFile) {
  const std::filesystem::path path = DANQING_GOLDEN "/pipeline/sd15/single.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path;
  const auto c = Checkpoint::open(path);
  ASSERT_NE(c.config("unet"), nullptr);
  EXPECT_EQ(nlohmann::json::parse(*c.config("unet"))["attention_head_dim"], 8);
  EXPECT_EQ(c.config("nothing"), nullptr);
  const TensorInfo* t = c.find("model.diffusion_model.input_blocks.0.0.weight");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->shape, (Shape{32, 4, 3, 3}));
  EXPECT_EQ(t->dtype, DType::f16);
}

}  // namespace
}  // namespace danqing
