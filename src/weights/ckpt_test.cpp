#include <nlohmann/json.hpp>

#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/scratch.h"

namespace danqing {
namespace {

using std::string;

// Pickle instructions, enough to write what torch.save writes.
string word(const string& s) { return "X" + little(s.size(), 4) + s; }
string global(const string& module, const string& name) { return "c" + module + "\n" + name + "\n"; }
string whole(uint32_t v) { return "J" + little(v, 4); }
string tuple(const std::vector<uint32_t>& values) {
  string out = "(";
  for (uint32_t v : values) out += whole(v);
  return out + "t";
}
string storage(const string& key, uint32_t count, const string& type = "FloatStorage") {
  return "(" + word("storage") + global("torch", type) + word(key) + word("cpu") + whole(count) + "tQ";
}
string tensor(const string& stored, uint32_t offset, const std::vector<uint32_t>& size,
              const std::vector<uint32_t>& stride) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + stored + whole(offset) + tuple(size) + tuple(stride) +
         "\x89" + global("collections", "OrderedDict") + ")RtR";
}
string entry(const string& name, const string& value) { return word(name) + value + "s"; }
string pickle(const string& body) { return "\x80\x02" + body + "."; }

struct Member {
  string name, data;
  uint16_t method = 0;
};

// A zip archive without checksums; `zip64` puts every size and position into extra fields.
string zip(const std::vector<Member>& members, bool zip64 = false) {
  string out, directory;
  for (const Member& m : members) {
    const uint64_t at = out.size(), size = m.data.size();
    const string extra = zip64 ? little(1, 2) + little(24, 2) + little(size, 8) + little(size, 8) + little(at, 8) : "";
    const uint64_t shown = zip64 ? 0xffffffff : size;
    const string common = little(45, 2) + little(0x808, 2) + little(m.method, 2) + little(0, 4) + little(0, 4) +
                          little(shown, 4) + little(shown, 4);
    out += "PK\3\4" + common + little(m.name.size(), 2) + little(0, 2) + m.name + m.data;
    directory += "PK\1\2" + little(45, 2) + common + little(m.name.size(), 2) + little(extra.size(), 2) + little(0, 2) +
                 little(0, 2) + little(0, 2) + little(0, 4) + little(zip64 ? 0xffffffff : at, 4) + m.name + extra;
  }
  const uint64_t start = out.size(), end64 = start + directory.size();
  out += directory;
  if (zip64)
    out += "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 4) + little(0, 4) +
           little(members.size(), 8) + little(members.size(), 8) + little(directory.size(), 8) + little(start, 8) +
           "PK\6\7" + little(0, 4) + little(end64, 8) + little(1, 4);
  out += "PK\5\6" + little(0, 4) + little(zip64 ? 0xffff : members.size(), 2) +
         little(zip64 ? 0xffff : members.size(), 2) + little(zip64 ? 0xffffffff : directory.size(), 4) +
         little(zip64 ? 0xffffffff : start, 4) + little(0, 2);
  return out;
}

string numbers(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

class Ckpt : public testing::Test {
 protected:
  Checkpoint open(const string& body, const string& root = "archive", bool zip64 = false) {
    return Checkpoint::open(
        scratch.write("x.ckpt", zip({{root + "/data.pkl", pickle(body)}, {root + "/data/0", data}}, zip64)));
  }
  string refused(const string& body) {
    return refusal([&] { open(body); });
  }
  std::vector<float> values(const Checkpoint& c, const string& name) {
    const TensorInfo* t = c.find(name);
    if (!t) return {};
    std::vector<float> out(static_cast<size_t>(t->shape.count()));
    c.read(*t, std::as_writable_bytes(std::span(out)));
    return out;
  }
  string data = numbers({0, 1, 2, 3, 4, 5, 6, 7});
  Scratch scratch;
};

TEST_F(Ckpt, ReadsViewsOfOneStorage) {
  const auto c = open(
      "}" + entry("a", tensor(storage("0", 8), 4, {2, 2}, {1, 2})) + entry("b", tensor(storage("0", 8), 0, {3}, {2})) +
      entry("c", tensor(storage("0", 8), 1, {2, 3}, {3, 1})) + entry("d", tensor(storage("0", 8), 7, {}, {})));
  EXPECT_EQ(values(c, "a"), (std::vector<float>{4, 6, 5, 7}));
  EXPECT_EQ(values(c, "b"), (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(values(c, "c"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(c, "d"), (std::vector<float>{7}));
  EXPECT_FALSE(c.find("c")->strides);
  std::vector<float> row(2);
  c.read_rows(*c.find("a"), 1, 1, std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, (std::vector<float>{5, 7}));
}

TEST_F(Ckpt, FindsTheStateDictAndJoinsNestedNames) {
  const string t = tensor(storage("0", 8), 0, {8}, {1});
  auto c = open("}" + entry("state_dict", "}" + entry("w", t)) + entry("step", whole(7)) +
                entry("other", "}" + entry("v", t)));
  EXPECT_EQ(c.tensors().size(), 1u);
  EXPECT_NE(c.find("w"), nullptr);
  EXPECT_EQ(c.metadata().at("step"), "7");
  c = open("}" + entry("string_to_param", "}" + entry("*", t)), "model", true);
  EXPECT_EQ(values(c, "string_to_param.*").size(), 8u);
}

TEST_F(Ckpt, LeavesOutUnknownObjectsWithANote) {
  const string unknown = global("pytorch_lightning.callbacks", "ModelCheckpoint") + ")R}" + entry("x", whole(1)) + "b";
  const auto c = open("}" + unknown + whole(1) + "s" + entry("callback", unknown) +
                      entry("w", tensor(storage("0", 8), 0, {8}, {1})));
  EXPECT_EQ(c.tensors().size(), 1u);
  ASSERT_EQ(c.notes().size(), 1u);
  EXPECT_NE(c.notes()[0].find("pytorch_lightning.callbacks.ModelCheckpoint"), string::npos);
}

TEST_F(Ckpt, RefusesWhatWouldRunAProgram) {
  const string run = word("touch /tmp/x") + "\x85R";
  EXPECT_NE(refused("}" + entry("x", global("os", "system") + run)).find("asks to run \"os.system\""), string::npos);
  EXPECT_NE(refused("}" + entry("x", global("posix", "system") + run)).find("posix.system"), string::npos);
  EXPECT_NE(refused("}" + entry("x", word("builtins") + word("eval") + "\x93" + run)).find("builtins.eval"),
            string::npos);
  EXPECT_NE(refused("}" + word("x") + "(" + word("a") + "isubprocess\nPopen\ns").find("subprocess.Popen"),
            string::npos);
}

TEST_F(Ckpt, RefusesTensorsOutsideTheirStorage) {
  const auto one = [&](const string& t) { return refused("}" + entry("w", t)); };
  EXPECT_NE(one(tensor(storage("0", 8), 1, {8}, {1})).find("\"w\" is [8] f32 from element 1 on, its storage has 8"),
            string::npos);
  EXPECT_NE(one(tensor(storage("0", 8), 0, {2, 2}, {1, 7})).find("its storage has 8"), string::npos);
  EXPECT_NE(one(tensor(storage("0", 8), 0, {2}, {0x7fffffff})).find("its storage has 8"), string::npos);
  EXPECT_NE(one(tensor(storage("0", 8), 0, {2, 2}, {1})).find("do not fit together"), string::npos);
  EXPECT_NE(one(tensor(storage("0", 9), 0, {8}, {1})).find("should have 36 bytes, the archive has 32"), string::npos);
  EXPECT_NE(one(tensor(storage("1", 8), 0, {8}, {1})).find("no member \"archive/data/1\""), string::npos);
  EXPECT_NE(one(tensor(storage("0", 0x7fffffff), 0, {8}, {1})).find("the file has"), string::npos);
  EXPECT_NE(one(tensor(storage("0", 8), 0, {1, 1, 1, 1, 1, 8}, {8, 8, 8, 8, 8, 1})).find("6 dimensions"), string::npos);
  // An expanded tensor repeats elements: a gigabyte from one float.
  EXPECT_NE(one(tensor(storage("0", 8), 0, {0x10000000}, {0})).find("holds no tensors"), string::npos);
}

TEST_F(Ckpt, RefusesDamagedPickles) {
  EXPECT_NE(refused("").find("stack is empty"), string::npos);
  EXPECT_NE(refused("h\x05").find("memo 5 was never stored"), string::npos);
  EXPECT_NE(refused("u").find("no mark"), string::npos);
  EXPECT_NE(refused("}(Nu").find("key but no value"), string::npos);
  EXPECT_NE(refused("\xff").find("unknown pickle instruction 255"), string::npos);
  EXPECT_NE(refused("X" + little(0xffffffff, 4)).find("bytes are wanted"), string::npos);
  EXPECT_NE(refused("]").find("holds no tensors"), string::npos);
  EXPECT_NE(refused("}q" + string(1, '\0') + entry("self", "h" + string(1, '\0'))).find("holds no tensors"),
            string::npos);
}

TEST_F(Ckpt, SaysWhatIsWrongWithTheArchive) {
  const auto with = [&](const string& bytes) {
    const auto path = scratch.write("x", bytes);
    return refusal([&] { Checkpoint::open(path); });
  };
  const string body = pickle("}" + entry("w", tensor(storage("0", 8), 0, {8}, {1})));
  EXPECT_EQ(with(zip({{"data.pkl", body}, {"data/0", data}})), "");
  EXPECT_NE(with(zip({{"a/data.pkl", body, 8}, {"a/data/0", data}})).find("is compressed (method 8)"), string::npos);
  EXPECT_NE(with(zip({{"a/data.pkl", body}, {"a/data/0", data, 8}})).find("is compressed (method 8)"), string::npos);
  EXPECT_NE(with(zip({{"a/weights.bin", data}})).find("without data.pkl"), string::npos);
  EXPECT_NE(with(zip({{"a/data.pkl", body}, {"a/byteorder", "big"}, {"a/data/0", data}})).find("big-endian"),
            string::npos);
  const string good = zip({{"a/data.pkl", body}, {"a/data/0", data}});
  EXPECT_NE(with(good.substr(0, good.size() - 40)).find("without its directory"), string::npos);
  EXPECT_NE(with(pickle("N")).find("plain Python pickle"), string::npos);
}

// Every tensor of single.safetensors stands in the checkpoint in other types and layouts, equal in value.
TEST_F(Ckpt, AgreesWithTheSafetensorsTwin) {
  const string file = DANQING_GOLDEN "/pipeline/sd15/formats/model.ckpt",
               twin = DANQING_GOLDEN "/pipeline/sd15/single.safetensors";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file;
  const auto got = Checkpoint::open(file), want = Checkpoint::open(twin);
  size_t strided = 0;
  for (const TensorInfo& w : want.tensors()) {
    const TensorInfo* g = got.find(w.name);
    ASSERT_NE(g, nullptr) << w.name;
    ASSERT_EQ(g->shape, w.shape) << w.name;
    strided += g->strides.has_value();
    std::vector<std::byte> a(g->bytes), b(w.bytes);
    got.read(*g, a);
    want.read(w, b);
    std::vector<float> x(static_cast<size_t>(w.shape.count())), y(x.size());
    to_f32(g->dtype, a, x);
    to_f32(w.dtype, b, y);
    ASSERT_EQ(x, y) << w.name;
  }
  EXPECT_GT(strided, 20u);
  EXPECT_EQ(values(got, "shared_a"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(values(got, "shared_b"), (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(got.metadata().at("global_step"), "470000");
  EXPECT_TRUE(got.notes().empty()) << got.notes()[0];
}

TEST_F(Ckpt, ReadsTheStreamFromBeforeZip) {
  const string file = DANQING_GOLDEN "/pipeline/sd15/formats/legacy.ckpt",
               twin = DANQING_GOLDEN "/pipeline/sd15/formats/model.ckpt";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file;
  const auto got = Checkpoint::open(file), want = Checkpoint::open(twin);
  EXPECT_EQ(got.tensors().size(), 5u);
  for (const TensorInfo& g : got.tensors()) {
    const TensorInfo* w = want.find(g.name);
    ASSERT_NE(w, nullptr) << g.name;
    ASSERT_EQ(g.bytes, w->bytes) << g.name;
    std::vector<std::byte> a(g.bytes), b(w->bytes);
    got.read(g, a);
    want.read(*w, b);
    EXPECT_EQ(a, b) << g.name;
  }
}

}  // namespace
}  // namespace danqing
