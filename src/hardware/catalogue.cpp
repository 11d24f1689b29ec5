#include "hardware/catalogue.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "hardware/csv.h"

namespace danqing {
namespace {

// A row with its place, so that each value can be refused by name.
struct Fields {
  const CsvTable& table;
  const CsvTable::Row& row;

  [[noreturn]] void fail(const std::string& column, const std::string& what) const {
    throw Error(Fault::file, table.where + " line " + std::to_string(row.line) + ": " + column + " \"" +
                                 table.at(row, column) + "\" " + what);
  }
  std::string text(const std::string& column) const {
    const std::string& out = table.at(row, column);
    if (out.empty()) fail(column, "is empty");
    return out;
  }
  Datum datum(const std::string& column, double least, double most) const {
    const std::string value = text(column);
    if (value == "?") return {Datum::State::unknown, 0};
    if (value == "none") return {Datum::State::none, 0};
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      fail(column, "is no number (nor \"?\" or \"none\")");
    if (!(number >= least && number <= most)) {
      fail(column, "is not between " + std::to_string(least) + " and " + std::to_string(most));
    }
    return {Datum::State::known, number};
  }
  double number(const std::string& column, double least, double most) const {
    const Datum d = datum(column, least, most);
    if (!d.known()) fail(column, "must be a number");
    return d.value;
  }
};

// The ranges hold for anything built up to now with room above; what lies outside is a slip of the unit or the pen.
Card card_of(const Fields& f) {
  Card c;
  c.name = f.text("name");
  c.vendor = f.text("vendor");
  c.architecture = f.text("architecture");
  c.memory_gib = f.number("memory_gib", 0.5, 4096);
  c.driver_total_mib = f.datum("driver_total_mib", 256, 1024 * c.memory_gib);
  c.bandwidth_gbs = f.number("bandwidth_gbs", 10, 50000);
  c.fp32_tflops = f.datum("fp32_tflops", 0.1, 1000);
  c.fp16_tflops = f.datum("fp16_tflops", 0.1, 20000);
  c.bf16_tflops = f.datum("bf16_tflops", 0.1, 20000);
  c.fp8_tflops = f.datum("fp8_tflops", 0.1, 50000);
  c.int8_tops = f.datum("int8_tops", 0.1, 50000);
  c.l2_mb = f.datum("l2_mb", 0.1, 4096);
  c.pcie_gen = f.datum("pcie_gen", 1, 6);
  c.pcie_lanes = f.datum("pcie_lanes", 1, 32);
  c.tdp_w = f.datum("tdp_w", 1, 5000);
  const std::string unified = f.text("unified");
  if (unified != "yes" && unified != "no") f.fail("unified", "is neither yes nor no");
  c.unified = unified == "yes";
  c.source = f.text("source");
  // A card bound by memory at 1000 operations a byte or by arithmetic at less than 1 does not exist.
  const double best = std::max({c.fp32_tflops.value, c.fp16_tflops.value, c.bf16_tflops.value});
  if (best == 0) f.fail("fp32_tflops", "and fp16, bf16 are all without a figure");
  const double intensity = best * 1000 / c.bandwidth_gbs;
  if (intensity < 1 || intensity > 1000)
    f.fail("bandwidth_gbs", "does not go with " + std::to_string(best) + " TFLOPS");
  return c;
}

Instance instance_of(const Fields& f) {
  Instance i;
  i.provider = f.text("provider");
  i.name = f.text("instance");
  i.card = f.text("card");
  i.cards = int(f.number("cards", 1, 64));
  i.vcpus = f.datum("vcpus", 1, 4096);
  i.ram_gib = f.datum("ram_gib", 1, 65536);
  i.usd_per_hour = f.datum("usd_per_hour", 0.01, 2000);
  i.region = f.text("region");
  i.date = f.text("date");
  i.source = f.text("source");
  return i;
}

double pcie_bytes_a_second(const Card& c) {
  if (c.unified || !c.pcie_gen.known() || !c.pcie_lanes.known()) return 0;
  // 128b/130b coding from Gen 3 on: 8, 16, 32 GT/s a lane; the shares are measured ones (nvbandwidth, bandwidthTest).
  const int gen = int(c.pcie_gen.value);
  const double lane = gen <= 2 ? 0.25e9 * gen : 0.985e9 * std::pow(2.0, gen - 3);
  return lane * c.pcie_lanes.value * (gen >= 5 ? 0.87 : 0.83);
}

Efficiency efficiency_of(const Card& c, std::string& source) {
  if (c.vendor == "AMD") {
    source = "default: best products reach 51 to 68 % of AMD's data sheets (ml-engineering), convolutions less";
    return {0.35, 0.5, 0.35, 0.7};
  }
  if (std::max(c.fp16_tflops.value, c.bf16_tflops.value) > 200) {
    source =
        "default: large chips are hard to fill; best products reach 77 to 87 % of the roof (ml-engineering), whole "
        "pictures at batch 1 a third";
    return {0.4, 0.6, 0.45, 0.75};
  }
  source = "default: whole pictures reach 57 to 73 % of the roof on chips up to 165 TFLOPS; memory copies 73 to 79 %";
  return {0.6, 0.75, 0.6, 0.75};
}

}  // namespace

Machine machine_of(const Card& c) {
  constexpr int64_t kContext = kGiB / 2;
  Machine m;
  m.name = c.name;
  m.kind = Machine::Kind::gpu;
  auto note = [&](const std::string& field, const std::string& text) { m.sources[field] = text; };
  auto rate = [&](const char* field, const Datum& d) {
    if (!d.known())
      note(field, d.state == Datum::State::none ? "none: the card has no such units" : "unknown: no figure found");
    return FlopsPerSecond(d.value * 1e12);
  };
  note("card", c.source);
  const double total = c.driver_total_mib.known() ? c.driver_total_mib.value * kMiB : 0.96 * c.memory_gib * kGiB;
  m.memory = Bytes(int64_t(c.unified ? 0.75 * c.memory_gib * kGiB : total - kContext));
  note("memory", c.unified ? "three quarters of the unified memory, as systems allow the GPU"
                           : std::string(c.driver_total_mib.known() ? "what the driver reports" : "96 % of the label") +
                                 " less 0.5 GiB for the context");
  m.bandwidth = BytesPerSecond(c.bandwidth_gbs * 1e9);
  m.roofs.f32 = rate("roof_f32", c.fp32_tflops);
  m.roofs.f16 = rate("roof_f16", c.fp16_tflops);
  m.roofs.bf16 = rate("roof_bf16", c.bf16_tflops);
  m.roofs.f8 = rate("roof_f8", c.fp8_tflops);
  m.roofs.int8 = rate("roof_int8", c.int8_tops);
  m.native_bf16 = c.bf16_tflops.known();
  m.caches.l2 = Bytes(int64_t(c.l2_mb.value * kMiB));
  m.pcie = BytesPerSecond(pcie_bytes_a_second(c));
  note("pcie", m.pcie.value > 0 ? "as achieved with pinned memory: 83 % of Gen 3 and 4, 87 % of Gen 5"
               : c.unified      ? "none: unified memory"
                                : "unknown: no figure found");
  note("disk", "unknown: a property of the host");
  m.launch = Seconds(5e-6);
  note("launch", "default: a kernel launch takes some 5 microseconds from the host");
  m.efficiency = efficiency_of(c, m.sources["efficiency"]);
  return m;
}

Catalogue Catalogue::load(const std::string& folder) {
  Catalogue out;
  out.add_cards(folder + "/cards.csv");
  const CsvTable table = read_csv(folder + "/instances.csv");
  for (const CsvTable::Row& row : table.rows) {
    const Fields fields{table, row};
    out.instances_.push_back(instance_of(fields));
    const std::string& card = out.instances_.back().card;
    const bool there = std::any_of(out.cards_.begin(), out.cards_.end(), [&](const Card& c) { return c.name == card; });
    if (!there) fields.fail("card", "is not in cards.csv");
  }
  return out;
}

void Catalogue::add_cards(const std::string& path) {
  const CsvTable table = read_csv(path);
  const size_t before = cards_.size();
  for (const CsvTable::Row& row : table.rows) {
    const Fields fields{table, row};
    Card card = card_of(fields);
    const auto same = std::find_if(cards_.begin(), cards_.end(), [&](const Card& c) { return c.name == card.name; });
    if (same == cards_.end()) {
      cards_.push_back(std::move(card));
    } else if (size_t(same - cards_.begin()) < before) {
      *same = std::move(card);
    } else {
      fields.fail("name", "stands twice");
    }
  }
}

std::vector<Instance> Catalogue::instances_with(const Card& card) const {
  std::vector<Instance> out;
  std::copy_if(instances_.begin(), instances_.end(), std::back_inserter(out),
               [&](const Instance& i) { return i.card == card.name; });
  std::stable_sort(out.begin(), out.end(), [](const Instance& a, const Instance& b) {
    if (a.usd_per_hour.known() != b.usd_per_hour.known()) return a.usd_per_hour.known();
    return a.usd_per_hour.value < b.usd_per_hour.value;
  });
  return out;
}

}  // namespace danqing
