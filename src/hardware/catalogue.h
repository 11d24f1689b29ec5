// Cards and rented instances that can be priced without being here: data/cards.csv and data/instances.csv.
//
// In the files "none" means the unit does not exist and "?" that no figure was found; both become a rate of 0 whose
// source says which. "memory" in a source means: known by heart, not looked up. Floating-point figures are dense, with
// 32-bit accumulation; GB and TFLOPS are decimal, memory_gib is the label on the box.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "hardware/machine.h"

namespace danqing {

struct Datum {
  enum class State { known, none, unknown } state = State::unknown;
  double value = 0;  // as the column's unit has it
  bool known() const { return state == State::known; }
};

struct Card {
  std::string name, vendor, architecture;
  double memory_gib = 0;
  Datum driver_total_mib;  // what the driver reports
  double bandwidth_gbs = 0;
  Datum fp32_tflops, fp16_tflops, bf16_tflops, fp8_tflops, int8_tops;
  Datum l2_mb, pcie_gen, pcie_lanes, tdp_w;
  bool unified = false;  // shares the host's memory
  std::string source;
};

struct Instance {
  std::string provider, name, card;  // card: a name of cards.csv
  int cards = 0;
  Datum vcpus, ram_gib, usd_per_hour;
  std::string region, date, source;  // a price without its date is worth nothing: print both
};

// Usable memory: what the driver reports (96 % of the label where that is unknown) less half a GiB for the context;
// three quarters of it for unified memory. PCIe: as achieved with pinned memory (83 % of Gen 3 and 4, 87 % of Gen 5).
Machine machine_of(const Card&);

class Catalogue {
 public:
  // Reads cards.csv and instances.csv of the folder. Throws Error(file) that names file, line and column for a value
  // that is no number or cannot be (bandwidth, rates, a usable memory above the label), a card named twice, or an
  // instance of a card that is not there.
  static Catalogue load(const std::string& folder);

  // A user's own cards, in the format of cards.csv; of equal names the later counts.
  void add_cards(const std::string& path);

  // By loose name: case, spaces, vendor words, "RTX" and such do not matter, nor does a memory size or a bus that
  // leaves one choice ("4090", "nvidia geforce rtx 4060", "a10g", "3060"). Throws Error(request) that lists the cards
  // meant if there are several, the nearest names if there is none.
  const Card& card(const std::string& name) const;

  const std::vector<Card>& cards() const { return cards_; }
  const std::vector<Instance>& instances() const { return instances_; }
  std::vector<Instance> instances_with(const Card&) const;  // cheapest by the hour first, unknown prices last

 private:
  std::vector<Card> cards_;
  std::vector<Instance> instances_;
};

}  // namespace danqing
