// The report as one page: no script, nothing from elsewhere, light and dark.
#include <algorithm>
#include <cstdio>

#include "explain/asked.h"
#include "explain/charts.h"
#include "explain/svg.h"
#include "explain/verdict.h"

namespace danqing {

namespace {

using svg::escaped;

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5c6675;--line:#d8dde5;--page:#fbfbf9;--card:#fff;--a:#b5342b;--b:#2f6f8f;--c:#c98a2b;--d:#5b7f4a}
@media(prefers-color-scheme:dark){:root{--ink:#e7e9ee;--soft:#9aa4b2;--line:#343b46;--page:#15181d;--card:#1d2127;--a:#e2685d;--b:#6fb1d1;--c:#e0ad5a;--d:#94bb80}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}
p{margin:.4rem 0}.soft{color:var(--soft)}.verdict{border-left:4px solid var(--a);padding:.2rem 0 .2rem 1rem;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--soft)}th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
svg{display:block;width:100%;min-width:35rem;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg.narrow{min-width:0;max-width:40rem}svg .mark{font-weight:700;font-size:11px}.dot{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.5rem}.key th,.key td{padding:.15rem .6rem}
tr:last-child td{border:0}.sums tr:last-child td{font-weight:600}.dense{font-size:.8rem}.dense th,.dense td{padding:.25rem .45rem}.wide+.wide{margin-top:.8rem}
)";

std::string tag(const char* name, const std::string& inner) {
  return "<" + std::string(name) + ">" + inner + "</" + name + ">";
}
std::string cell(const std::string& text) { return tag("td", escaped(text)); }
std::string section(const std::string& title, const std::string& body) { return tag("h2", title) + body; }

std::string table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
                  const char* kind = "") {
  std::string html = "<div class=\"wide\"><table class=\"" + std::string(kind) + "\"><tr>";
  for (const std::string& head : heads) html += tag("th", escaped(head));
  for (const auto& row : rows) {
    html += "</tr><tr>";
    for (const std::string& value : row) html += cell(value);
  }
  return html + "</tr></table></div>";
}

std::string number(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string top(const Subject& s) {
  std::string html = tag("h1", escaped(s.title.empty() ? "danqing" : s.title)) + "<p class=\"soft\">on " +
                     escaped(s.machine.name) + ", " + std::to_string(s.machine.threads) + " threads</p><dl>";
  for (const auto& [key, value] : asked(s.request_json)) html += tag("dt", escaped(key)) + tag("dd", escaped(value));
  return html + "</dl>";
}

// A number stays on one line with its sign.
std::string unbroken(std::string text) {
  for (size_t at = 0; (at = text.find(" %", at)) != std::string::npos;) text.replace(at, 1, "&#160;");
  return text;
}

std::string sentences(const Subject& s, const Summary& m) {
  std::string html = "<div class=\"verdict\">";
  for (const std::string& sentence : verdict(s, m)) html += tag("p", unbroken(escaped(sentence)));
  for (const std::string& note : s.notes) html += "<p class=\"soft\">" + escaped(note) + "</p>";
  return html + "</div>";
}

std::string phases(const Subject& s, const Summary& m) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name_, const std::string& times, Bytes peak, Flops work, Seconds predicted,
                       std::optional<Seconds> measured, Bound bound) {
    std::vector<std::string> row{name_, times, to_string(peak), work.value > 0 ? to_string(work) : "-",
                                 to_string(predicted)};
    if (s.trace) row.push_back(measured ? to_string(*measured) : "-");
    if (s.trace) row.push_back(measured ? apart(predicted.value, measured->value) : "-");
    row.emplace_back(name(bound));
    rows.push_back(std::move(row));
  };
  for (const PhaseRow& p : m.phases)
    add(p.name, std::to_string(p.times), p.peak, p.work.products * static_cast<double>(p.times), p.total.seconds,
        p.measured, p.total.bound);
  add("all", "", s.plan.peak + s.base, s.plan.work.products, s.plan.cost.seconds, s.seconds, s.plan.cost.bound);
  if (s.trace)
    return table({"phase", "runs", "memory", "products", "predicted", "measured", "prediction", "bound by"}, rows,
                 "sums");
  return table({"phase", "runs", "memory", "products", "predicted", "bound by"}, rows, "sums");
}

std::string card(const std::string& inner) { return "<div class=\"wide\">" + inner + "</div>"; }

std::string bars_of(const Summary& m) {
  std::vector<Bar> by_phase, kinds;
  for (const PhaseRow& p : m.phases)
    by_phase.push_back({p.name, p.total.seconds.value, p.measured ? p.measured->value : 0, to_string(p.seconds())});
  for (const OpRow& k : by_kind(m))
    kinds.push_back(
        {std::string(plural(k.kind)), k.predicted.value, k.measured ? k.measured->value : 0, to_string(k.seconds())});
  return card(bars(by_phase)) + card(bars(kinds));
}

std::string memory(const Subject& s, const Summary& m) {
  const std::string chart =
      timeline({s.trace ? s.trace->memory : std::vector<MemoryMoment>(), m.planned_memory, s.base, s.limit});
  return card(chart) + "<p class=\"soft\">" + to_string(s.plan.peak + s.base) + " are weights " +
         to_string(s.plan.weights) + ", arena " + to_string(s.plan.arena) + ", buffers " + to_string(s.plan.io_bytes) +
         " and the process itself " + to_string(s.base) + "." +
         (s.trace ? " Dashed: the plan, at predicted times." : "") + "</p>";
}

const char* colour_of(OpKind kind) {
  static constexpr const char* kColours[] = {"--b", "--c", "--d", "--soft"};
  return kColours[static_cast<size_t>(kind)];
}

// The key of the roofline: number, kind, and how near to its roof it comes.
std::string key(const std::vector<OpRow>& rows, const std::vector<RoofPoint>& points, double peak, double bandwidth) {
  std::string html =
      "<div class=\"wide key\"><table><tr><th>in the plot</th><th>FLOP a byte</th><th>rate</th><th>of its "
      "roof</th><th>time</th></tr>";
  for (size_t i = 0; i < points.size(); ++i) {
    const RoofPoint& p = points[i];
    const double roof = std::min(peak, p.intensity * bandwidth);
    html += "<tr><td><span class=\"dot\" style=\"background:var(" + std::string(p.colour) + ")\"></span>" +
            std::to_string(i + 1) + " " + escaped(p.label) + "</td>" +
            cell(number(p.intensity < 10 ? "%.2f" : "%.0f", p.intensity)) + cell(to_string(FlopsPerSecond(p.rate))) +
            cell(roof > 0 ? percent(p.rate / roof) : "-") + cell(to_string(rows[i].seconds())) + "</tr>";
  }
  return html + "</table></div>";
}

std::string roofs(const Subject& s, const Summary& m) {
  constexpr double kLeast = 0.001;  // of the time: what takes less only crowds the plot
  std::vector<OpRow> rows;
  for (const OpRow& row : m.kinds)
    if (row.seconds().value > kLeast * m.computing().value && row.bytes().value > 0 && row.flops().value > 0)
      rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater{}, &OpRow::seconds);
  std::vector<RoofPoint> points;
  for (const OpRow& row : rows)
    points.push_back({row.phase + ": " + std::string(plural(row.kind)), colour_of(row.kind),
                      row.flops().value / static_cast<double>(row.bytes().value),
                      row.flops().value / row.seconds().value, row.seconds().value});
  const double peak = m.roof.value, bandwidth = s.machine.bandwidth.value;
  return card(roofline(points, peak, bandwidth)) +
         "<p class=\"soft\">A disc is a kind of op in one phase, its area the time it takes. On the slope memory "
         "binds, under the flat "
         "roof arithmetic; what is missing to the roof could be gained. Left out is what takes less than a thousandth "
         "of the time. Norms and moves count their vector "
         "arithmetic.</p>" +
         key(rows, points, peak, bandwidth);
}

std::string heaviest(const Summary& m) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min<size_t>(10, m.ops.size()); ++i) {
    const OpRow& op = m.ops[i];
    const double rate = op.seconds().value > 0 ? op.flops().value / op.seconds().value : 0;
    rows.push_back({op.node->name, op.phase, to_string(op.seconds()), number("%.0f GFLOP/s", rate / 1e9),
                    m.roof.value > 0 ? percent(rate / m.roof.value) : "-", describe(op.node->op),
                    to_string(op.node->type)});
  }
  return table({"op", "phase", "all runs", "rate", "of the peak", "kind", "result"}, rows, "dense");
}

}  // namespace

std::string report_html(const Subject& s) {
  const Summary m = summarise(s);
  const std::string title = escaped(s.title.empty() ? "danqing" : s.title);
  return "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">" +
         tag("title", title) + tag("style", kStyle) + "</head><body><main>" + top(s) + sentences(s, m) +
         section(s.trace ? "Predicted beside measured" : "Predicted", phases(s, m)) +
         section("Where the time goes", bars_of(m)) +
         section(s.trace ? "Memory over time, measured" : "Memory over time, as planned", memory(s, m)) +
         section("Roofline", roofs(s, m)) + section("The ten heaviest ops", heaviest(m)) + "</main></body></html>\n";
}

}  // namespace danqing
