// The report as one page: no script, nothing from elsewhere, light and dark.
#include <cstdio>

#include "explain/asked.h"
#include "explain/charts.h"
#include "explain/verdict.h"

namespace danqing {

namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5c6675;--line:#d8dde5;--page:#fbfbf9;--card:#fff;--a:#b5342b;--b:#2f6f8f;--c:#c98a2b;--d:#5b7f4a}
@media(prefers-color-scheme:dark){:root{--ink:#e7e9ee;--soft:#9aa4b2;--line:#343b46;--page:#15181d;--card:#1d2127;--a:#e2685d;--b:#6fb1d1;--c:#e0ad5a;--d:#94bb80}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}
p{margin:.4rem 0}.soft{color:var(--soft)}.verdict{border-left:4px solid var(--a);padding:.2rem 0 .2rem 1rem;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--soft)}th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
)";

std::string tag(const char* name, const std::string& inner) {
  return "<" + std::string(name) + ">" + inner + "</" + name + ">";
}
std::string cell(const std::string& text) { return tag("td", escaped(text)); }
std::string section(const std::string& title, const std::string& body) { return tag("h2", title) + body; }

std::string table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"wide\"><table><tr>";
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

std::string sentences(const Subject& s, const Summary& m) {
  std::string html = "<div class=\"verdict\">";
  for (const std::string& sentence : verdict(s, m)) html += tag("p", escaped(sentence));
  for (const std::string& note : s.notes) html += "<p class=\"soft\">" + escaped(note) + "</p>";
  return html + "</div>";
}

std::string phases(const Summary& m) {
  std::vector<std::vector<std::string>> rows;
  for (const PhaseRow& p : m.phases)
    rows.push_back({p.name, std::to_string(p.times), to_string(p.peak),
                    p.work.products.value > 0 ? to_string(p.work.products) : "-", to_string(p.total.seconds),
                    p.measured ? to_string(*p.measured) : "-",
                    p.measured ? apart(p.total.seconds.value, p.measured->value) : "-",
                    std::string(name(p.total.bound))});
  return table(
      {"phase", "times", "memory", "products, one run", "predicted", "measured", "the prediction is", "bound by"},
      rows);
}

std::string bars_of(const Summary& m) {
  std::vector<Bar> by_phase, kinds;
  for (const PhaseRow& p : m.phases)
    by_phase.push_back({p.name, p.total.seconds.value, p.measured ? p.measured->value : 0, to_string(p.seconds())});
  for (const OpRow& k : by_kind(m))
    kinds.push_back(
        {std::string(plural(k.kind)), k.predicted.value, k.measured ? k.measured->value : 0, to_string(k.seconds())});
  return "<div class=\"wide\">" + bars(by_phase) + "</div><p></p><div class=\"wide\">" + bars(kinds) + "</div>";
}

std::string memory(const Subject& s, const Summary& m) {
  return "<div class=\"wide\">" + timeline(s.trace ? s.trace->memory : m.planned_memory, s.base, s.limit) + "</div>";
}

std::string roofs(const Subject& s, const Summary& m) {
  std::vector<RoofPoint> points;
  for (const OpRow& row : m.kinds)
    if (row.seconds().value > 0 && row.bytes().value > 0 && row.flops().value > 0)
      points.push_back({row.phase + ": " + std::string(plural(row.kind)),
                        row.flops().value / static_cast<double>(row.bytes().value),
                        row.flops().value / row.seconds().value, row.seconds().value});
  return "<div class=\"wide\">" + roofline(points, m.roof.value, s.machine.bandwidth.value) +
         "</div><p class=\"soft\">Each disc is a kind of op in one phase, its area the time it takes. Left of the knee "
         "memory binds, right of it "
         "arithmetic; the distance to the roof is what is left to gain.</p>";
}

std::string heaviest(const Summary& m) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min<size_t>(10, m.ops.size()); ++i) {
    const OpRow& op = m.ops[i];
    const double rate = op.seconds().value > 0 ? op.flops().value / op.seconds().value : 0;
    rows.push_back({op.node->name, op.phase, describe(op.node->op), to_string(op.node->type), to_string(op.seconds()),
                    number("%.0f GFLOP/s", rate / 1e9), m.roof.value > 0 ? percent(rate / m.roof.value) : "-"});
  }
  return table({"op", "phase", "kind", "result", "all runs", "rate", "of the peak"}, rows);
}

}  // namespace

std::string report_html(const Subject& s) {
  const Summary m = summarise(s);
  const std::string title = escaped(s.title.empty() ? "danqing" : s.title);
  return "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">" +
         tag("title", title) + tag("style", kStyle) + "</head><body><main>" + top(s) + sentences(s, m) +
         section(s.trace ? "Predicted beside measured" : "Predicted", phases(m)) +
         section("Where the time goes", bars_of(m)) +
         section(s.trace ? "Memory over time, measured" : "Memory over time, as planned", memory(s, m)) +
         section("Roofline", roofs(s, m)) + section("The ten heaviest ops", heaviest(m)) + "</main></body></html>\n";
}

}  // namespace danqing
