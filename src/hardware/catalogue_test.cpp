#include "hardware/catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "hardware/csv.h"
#include "hardware/fake_tree.h"

namespace danqing {
namespace {

template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "(none)";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Catalogue& shipped() {
  static const Catalogue catalogue = Catalogue::load(std::string(DANQING_SOURCE) + "/data");
  return catalogue;
}

TEST(Csv, FieldsAndLines) {
  const CsvTable t = parse_csv("# a comment\r\na,b,c\n\n1,\"x, \"\"y\"\"\n z\",3\r\n,,\n", "t");
  EXPECT_EQ(t.columns, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.at(t.rows[0], "b"), "x, \"y\"\n z");
  EXPECT_EQ(t.at(t.rows[0], "c"), "3");
  EXPECT_EQ(t.rows[0].line, 4);
  EXPECT_EQ(t.rows[1].line, 6);
  EXPECT_EQ(parse_csv("a,b\n1,2", "t").rows[0].fields[1], "2");  // no line end at the end
}

TEST(Csv, Strict) {
  EXPECT_EQ(error_of([] { parse_csv("a,b\n1,2\n1,2,3\n", "t.csv"); }), "t.csv line 3: 3 fields, the header has 2");
  EXPECT_TRUE(says(error_of([] { parse_csv("a\n\"x\n", "t"); }), "line 2: a quote that is never closed"));
  EXPECT_TRUE(says(error_of([] { parse_csv("a\nx\"y\n", "t"); }), "line 2: a quote inside"));
  EXPECT_TRUE(says(error_of([] { parse_csv("a\n\"x\"y\n", "t"); }), "line 2: text after a closing quote"));
  EXPECT_TRUE(says(error_of([] { parse_csv("# only\n", "t"); }), "no header"));
  const CsvTable t = parse_csv("a\n1\n", "t");
  EXPECT_TRUE(says(error_of([&] { t.at(t.rows[0], "b"); }), "column \"b\" is missing"));
}

TEST(Catalogue, ShippedCardsCanBe) {
  EXPECT_GE(shipped().cards().size(), 100u);
  for (const Card& card : shipped().cards()) {
    SCOPED_TRACE(card.name);
    const Machine m = machine_of(card);
    EXPECT_LT(m.memory.value, card.memory_gib * double(kGiB));
    EXPECT_GT(m.memory.value, 0.7 * card.memory_gib * double(kGiB));
    EXPECT_GE(m.bandwidth.value, 2e11);
    EXPECT_LE(m.bandwidth.value, 1e13);
    EXPECT_GE(m.roofs.f32.value, 5e12);
    EXPECT_LE(m.roofs.f32.value, 2e14);
    // Tensor units at 8 and at 16 bits: not slower than 16, not more than twice as fast (four times for int8 of
    // GeForce).
    if (card.fp8_tflops.known()) {
      EXPECT_NEAR(card.fp8_tflops.value / card.fp16_tflops.value, 2, 0.05);
    }
    if (card.int8_tops.known() && card.fp16_tflops.known()) {
      EXPECT_GE(card.int8_tops.value / card.fp16_tflops.value, 0.99);
      EXPECT_LE(card.int8_tops.value / card.fp16_tflops.value, 4.05);
    }
    EXPECT_EQ(m.pcie.value == 0, card.unified);
    EXPECT_LT(m.pcie.value, 6e10);
    EXPECT_GT(card.source.size(), 10u);
    for (double e :
         {m.efficiency.convolution, m.efficiency.linear, m.efficiency.attention, m.efficiency.memory_bound}) {
      EXPECT_GT(e, 0.2);
      EXPECT_LT(e, 1);
    }
  }
}

TEST(Catalogue, EveryNameFindsItself) {
  for (const Card& card : shipped().cards()) {
    EXPECT_EQ(error_of([&] { EXPECT_EQ(shipped().card(card.name).name, card.name); }), "(none)");
  }
}

TEST(Catalogue, LooseNames) {
  for (const auto& [asked, found] :
       std::vector<std::pair<std::string, std::string>>{{"4090", "RTX 4090"},
                                                        {"rtx4090", "RTX 4090"},
                                                        {"NVIDIA GeForce RTX 4090", "RTX 4090"},
                                                        {"4090d", "RTX 4090 D"},
                                                        {"RTX 4060", "RTX 4060"},
                                                        {"4060 Ti 16GB", "RTX 4060 Ti 16GB"},
                                                        {"rtx 4060ti 16g", "RTX 4060 Ti 16GB"},
                                                        {"a10g", "A10G"},
                                                        {"A10", "A10"},
                                                        {"Tesla T4", "T4"},
                                                        {"3060", "RTX 3060 12GB"},
                                                        {"NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"},
                                                        {"NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"},
                                                        {"radeon rx 7900 xtx", "RX 7900 XTX"},
                                                        {"gb10", "GB10 (DGX Spark)"},
                                                        {"l40s", "L40S"},
                                                        {"L4", "L4"}}) {
    EXPECT_EQ(error_of([&] { EXPECT_EQ(shipped().card(asked).name, found) << asked; }), "(none)") << asked;
  }
}

TEST(Catalogue, UnknownAndAmbiguousNamesListOthers) {
  EXPECT_EQ(error_of([] { shipped().card("h100"); }), "\"h100\" may be any of: H100 PCIe, H100 SXM, H100 NVL 94GB");
  EXPECT_TRUE(says(error_of([] { shipped().card("4060 ti"); }), "RTX 4060 Ti 8GB, RTX 4060 Ti 16GB"));
  EXPECT_TRUE(says(error_of([] { shipped().card("RTX 4090 Laptop"); }), "nearest are RTX 4090,"));
  EXPECT_TRUE(says(error_of([] { shipped().card("RTX 407"); }), "RTX 4070"));
  EXPECT_TRUE(says(error_of([] { shipped().card(""); }), "no card \"\""));
  EXPECT_TRUE(says(error_of([] { shipped().card(std::string(100000, 'x')); }), "no card"));
}

TEST(Catalogue, KnownFigures) {
  const Machine rtx4090 = machine_of(shipped().card("4090"));
  EXPECT_EQ(rtx4090.roofs.f16.value, 165.2e12);  // GeForce: half rate with 32-bit accumulation
  EXPECT_EQ(rtx4090.memory.value, (24564 - 512) * kMiB);
  EXPECT_EQ(machine_of(shipped().card("RTX 2000 Ada")).bandwidth.value, 224e9);
  EXPECT_EQ(machine_of(shipped().card("a10g")).roofs.bf16.value, 70e12);
  const Machine t4 = machine_of(shipped().card("t4"));
  EXPECT_FALSE(t4.native_bf16);
  EXPECT_EQ(t4.roofs.bf16.value, 0);
  EXPECT_TRUE(says(t4.sources.at("roof_bf16"), "none"));
  EXPECT_TRUE(says(machine_of(shipped().card("gb10")).sources.at("roof_f16"), "unknown"));
}

TEST(Catalogue, InstancesAreOfKnownCards) {
  EXPECT_GE(shipped().instances().size(), 100u);
  std::set<std::pair<std::string, std::string>> names;
  for (const Instance& i : shipped().instances()) {
    EXPECT_TRUE(names.insert({i.provider, i.name}).second) << i.name;
    if (i.usd_per_hour.known()) {  // for one card an hour, in dollars
      EXPECT_GE(i.usd_per_hour.value / i.cards, 0.1) << i.name;
      EXPECT_LE(i.usd_per_hour.value / i.cards, 16) << i.name;
      EXPECT_NE(i.date, "?") << i.name << ": a price without its date";
    }
  }
  const auto t4 = shipped().instances_with(shipped().card("T4"));
  ASSERT_GE(t4.size(), 5u);
  EXPECT_EQ(t4.front().name, "g4dn.xlarge");
  EXPECT_FALSE(t4.back().usd_per_hour.known());
}

constexpr char kHeader[] =
    "name,vendor,architecture,memory_gib,driver_total_mib,bandwidth_gbs,fp32_tflops,fp16_tflops,bf16_tflops,fp8_tflops,"
    "int8_tops,l2_mb,pcie_gen,pcie_lanes,tdp_w,unified,source\n";

TEST(Catalogue, OwnCards) {
  FakeTree tree;
  tree.write("mine.csv", std::string(kHeader) +
                             "RTX 4090,me,Ada,48,?,1008,82.6,165,165,330,660,72,4,16,450,no,modified\n"
                             "Dream 1,me,New,8,?,100,1,2,2,none,?,?,none,none,?,yes,made up\n");
  Catalogue catalogue = shipped();
  const size_t before = catalogue.cards().size();
  catalogue.add_cards(tree.path("mine.csv"));
  EXPECT_EQ(catalogue.cards().size(), before + 1);
  EXPECT_EQ(catalogue.card("4090").memory_gib, 48);
  EXPECT_EQ(machine_of(catalogue.card("dream 1")).memory.value, 6 * kGiB);
}

TEST(Catalogue, ImpossibleValuesAreRefused) {
  FakeTree tree;
  auto refused = [&](const std::string& row) {
    tree.write("bad.csv", kHeader + row + "\n");
    return error_of([&] { Catalogue().add_cards(tree.path("bad.csv")); });
  };
  const std::string end = ",82,165,165,330,660,72,4,16,450,no,s";
  EXPECT_EQ(refused("X,v,a,24,24000,1008" + end), "(none)");
  EXPECT_TRUE(says(refused("X,v,a,24,24000,1.008" + end), "line 2: bandwidth_gbs \"1.008\""));  // TB/s
  EXPECT_TRUE(says(refused("X,v,a,24,25000,1008" + end), "driver_total_mib \"25000\""));        // above the label
  EXPECT_TRUE(says(refused("X,v,a,24576,24000,1008" + end), "memory_gib"));                     // MiB
  EXPECT_TRUE(says(refused("X,v,a,24,24000,1008,82000,165,165,330,660,72,4,16,450,no,s"), "fp32_tflops"));  // GFLOPS
  EXPECT_TRUE(says(refused("X,v,a,24,24000,20,82,165,165,330,660,72,4,16,450,no,s"), "does not go with"));
  EXPECT_TRUE(says(refused("X,v,a,?,24000,1008" + end), "memory_gib \"?\" must be a number"));
  EXPECT_TRUE(says(refused("X,v,a,24,24k,1008" + end), "is no number"));
  EXPECT_TRUE(says(refused("X,v,a,24,,1008" + end), "driver_total_mib \"\" is empty"));
  EXPECT_TRUE(says(refused("X,v,a,24,nan,1008" + end), "driver_total_mib"));
  EXPECT_TRUE(
      says(refused("X,v,a,24,24000,1008" + end + "\nX,v,a,24,24000,1008" + end), "line 3: name \"X\" stands twice"));
  EXPECT_TRUE(says(refused("X,v,a,24,24000,1008,82,165,165,330,660,72,4,16,450,maybe,s"), "unified"));
}

}  // namespace
}  // namespace danqing
