#include "hardware/machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hardware/machine_json.h"

namespace danqing {
namespace {

using nlohmann::json;

// Every field another value, so that a swapped pair shows.
Machine full() {
  Machine m;
  m.name = "test";
  m.kind = Machine::Kind::gpu;
  m.memory = Bytes(8589934593);
  m.bandwidth = BytesPerSecond(1e11);
  m.roofs = {FlopsPerSecond(1e12), FlopsPerSecond(2e12), FlopsPerSecond(3e12), FlopsPerSecond(4e12),
             FlopsPerSecond(5e12)};
  m.native_bf16 = true;
  m.cores = 6;
  m.threads = 12;
  m.caches = {Bytes(1), Bytes(2), Bytes(3)};
  m.disk = BytesPerSecond(7e8);
  m.pcie = BytesPerSecond(8e9);
  m.launch = Seconds(5e-6);
  m.efficiency = {0.1, 0.2, 0.3, 0.4};
  m.sources = {{"disk", "guess"}};
  return m;
}

TEST(MachineJson, EveryFieldComesBack) {
  const json first = to_json(full());
  EXPECT_EQ(first.size(), 23u);
  EXPECT_EQ(to_json(machine_from_json(json::parse(first.dump()), "x")), first);
  EXPECT_EQ(first["roof_bf16"], 3e12);
  EXPECT_EQ(first["memory"], 8589934593);
  EXPECT_EQ(first["efficiency_attention"], 0.3);
}

TEST(MachineJson, RefusesWhatCannotBe) {
  auto text = [](const json& change) {
    json j = to_json(full());
    j.merge_patch(change);  // null removes
    try {
      machine_from_json(j, "m.json");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("(none)");
  };
  EXPECT_EQ(text({{"memory", nullptr}}), "m.json: machine field \"memory\" is missing");
  EXPECT_EQ(text({{"bandwith", 3}}), "m.json: machine field \"bandwith\" is not known");
  EXPECT_NE(text({{"roof_f32", -1}}).find("roof_f32\" is out of range"), std::string::npos);
  EXPECT_NE(text({{"threads", 1e12}}).find("threads\" is out of range"), std::string::npos);
  EXPECT_NE(text({{"disk", "fast"}}).find("disk\" is not a number"), std::string::npos);
  EXPECT_NE(text({{"kind", "tpu"}}).find("kind"), std::string::npos);
  EXPECT_NE(text({{"native_bf16", 1}}).find("native_bf16"), std::string::npos);
  EXPECT_NE(text({{"name", 1}}).find("name"), std::string::npos);
  EXPECT_NE(text({{"sources", {{"disk", 3}}}}).find("sources.disk"), std::string::npos);
  EXPECT_EQ(text({{"launch", nullptr}}), "(none)");
  EXPECT_THROW(machine_from_json(json::array(), "x"), Error);
}

TEST(Machine, RoofFallsBackToWhatIsThere) {
  Machine m = full();
  EXPECT_EQ(roof(m, DType::f32).value, 1e12);
  EXPECT_EQ(roof(m, DType::f16).value, 2e12);
  EXPECT_EQ(roof(m, DType::bf16).value, 3e12);
  EXPECT_EQ(roof(m, DType::f8_e4m3).value, 4e12);
  EXPECT_EQ(roof(m, DType::i8).value, 5e12);
  EXPECT_EQ(roof(m, DType::q8_0).value, 3e12);
  m.roofs.bf16 = m.roofs.f8 = m.roofs.int8 = {};  // a Turing card: f16 is what it multiplies
  EXPECT_EQ(roof(m, DType::bf16).value, 2e12);
  EXPECT_EQ(roof(m, DType::f8_e4m3).value, 2e12);
  EXPECT_EQ(roof(m, DType::q4_0).value, 2e12);
  m.roofs.f16 = {};
  EXPECT_EQ(roof(m, DType::i8).value, 1e12);
}

TEST(Machine, RatesInText) {
  EXPECT_EQ(to_string(BytesPerSecond(42.13e9)), "42.1 GB/s");
  EXPECT_EQ(to_string(FlopsPerSecond(1.2e12)), "1.20 TFLOP/s");
  EXPECT_EQ(to_string(FlopsPerSecond(330e12)), "330 TFLOP/s");
}

}  // namespace
}  // namespace danqing
