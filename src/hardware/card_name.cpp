// Cards by loose name.
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hardware/catalogue.h"

namespace danqing {
namespace {

// The words of a name, lower case, without vendor words; memory sizes last and all as "16gb"; "sxm4" as "sxm".
std::string squeezed(const std::string& name, bool drop_family) {
  static const char* const kVendor[] = {"nvidia", "geforce", "amd",      "radeon",
                                        "intel",  "tesla",   "graphics", "generation"};
  static const char* const kFamily[] = {"rtx", "gtx", "rx", "arc", "quadro", "instinct"};
  std::string out, sizes, word;
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto finish = [&] {
    const size_t digits = size_t(std::find_if_not(word.begin(), word.end(), is_digit) - word.begin());
    const std::string unit = word.substr(digits);
    const bool dropped = std::find(std::begin(kVendor), std::end(kVendor), word) != std::end(kVendor) ||
                         (drop_family && std::find(std::begin(kFamily), std::end(kFamily), word) != std::end(kFamily));
    if (digits > 0 && (unit == "g" || unit == "gb" || unit == "gib")) {
      sizes += word.substr(0, digits) + "gb";
    } else if (word.size() == 4 && word.starts_with("sxm")) {
      out += "sxm";
    } else if (!dropped) {
      // "rtx4090" in one word
      for (const char* family : kFamily) {
        const std::string f = family;
        if (drop_family && word.size() > f.size() && word.starts_with(f) && is_digit(word[f.size()]))
          word.erase(0, f.size());
      }
      out += word;
    }
    word.clear();
  };
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    if (is_digit(c) || (c >= 'a' && c <= 'z')) {
      word += c;
    } else {
      finish();
    }
  }
  finish();
  return out + sizes;
}

// What a short name may leave out: bus, case, name of the system, then a memory size ("16gb") or a count of cores
// ("24c"). The number has at most three digits and no zero in front: in "306" + "012gb" the name was cut inside.
bool is_qualifier(std::string_view rest) {
  static constexpr std::string_view kWords[] = {"pcie",      "sxm",      "nvl",       "workstation", "server",
                                                "blackwell", "dgxspark", "strixhalo", "1of2dies"};
  const std::string_view* word = nullptr;
  auto leads = [&](std::string_view w) { return rest.starts_with(w); };
  while ((word = std::find_if(std::begin(kWords), std::end(kWords), leads)) != std::end(kWords)) {
    rest.remove_prefix(word->size());
  }
  if (rest.empty()) return true;
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string_view unit = rest.substr(digits);
  return digits >= 1 && digits <= 3 && rest[0] != '0' && (unit == "gb" || unit == "c");
}

// Levenshtein.
int distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = int(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int here = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = here;
    }
  }
  return row[b.size()];
}

std::string listed(const std::vector<const Card*>& cards) {
  std::string out;
  for (const Card* c : cards) out += (out.empty() ? "" : ", ") + c->name;
  return out;
}

std::vector<const Card*> nearest(const std::vector<Card>& cards, const std::string& wanted, size_t count) {
  std::vector<std::pair<int, const Card*>> ranked;
  for (const Card& c : cards) {
    const std::string key = squeezed(c.name, true);
    // The same digits count for more than equal letters: "RTX 4090 Laptop" is near the 4090.
    const bool inside =
        !wanted.empty() && (wanted.find(key) != std::string::npos || key.find(wanted) != std::string::npos);
    ranked.emplace_back(inside ? 0 : distance(key, wanted), &c);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Card*> out;
  for (size_t i = 0; i < ranked.size() && i < count; ++i) out.push_back(ranked[i].second);
  return out;
}

}  // namespace

const Card& Catalogue::card(const std::string& name) const {
  const std::string shown = name.substr(0, 80);
  for (const bool drop_family : {false, true}) {
    const std::string wanted = squeezed(shown, drop_family);
    if (wanted.empty()) continue;
    std::vector<const Card*> same, longer;
    for (const Card& c : cards_) {
      const std::string key = squeezed(c.name, drop_family);
      if (key == wanted) same.push_back(&c);
      if (key.starts_with(wanted) && is_qualifier(std::string_view(key).substr(wanted.size()))) longer.push_back(&c);
    }
    const std::vector<const Card*>& meant = same.empty() ? longer : same;
    if (meant.size() == 1) return *meant[0];
    if (meant.size() > 1) throw Error(Fault::request, "\"" + shown + "\" may be any of: " + listed(meant));
  }
  throw Error(Fault::request, "no card \"" + shown + "\" in the catalogue; the nearest are " +
                                  listed(nearest(cards_, squeezed(shown, true), 5)));
}

}  // namespace danqing
