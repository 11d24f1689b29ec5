// The report for a terminal: what was asked, a table of phases, the peak and its parts, the verdict.
#include <cstdio>

#include "explain/asked.h"
#include "explain/verdict.h"

namespace danqing {

namespace {

constexpr size_t kColumns = 80;

// Columns between characters, not bytes; a control character would move the cursor, so it becomes a space.
std::string printable(const std::string& text) {
  std::string out = text;
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  return out;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string wrapped(const std::string& text, const std::string& indent) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    if (text.compare(end, 2, " %") == 0) end = std::min(text.find(' ', end + 1), text.size());  // a number and its sign
    size_t width = 0;
    for (size_t i = at; i < end; ++i) width += starts_character(text[i]);
    if (column == 0)
      column = width;
    else if (column + 1 + width > kColumns)
      (out += "\n") += indent, column = indent.size() + width;
    else
      out += " ", column += 1 + width;
    out.append(text, at, end - at);
    at = end + 1;
  }
  return out + "\n";
}

std::string shortened(const std::string& text, size_t most) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if (starts_character(text[i]) && ++width > most) return text.substr(0, i) + "...";
  return text;
}

std::string header(const Subject& s) {
  std::string text = printable(s.title.empty() ? "model" : s.title) + " on " + printable(s.machine.name) + "\n", line;
  for (const auto& [key, value] : asked(s.request_json)) {
    if (key == "prompt" || key == "negative" || key == "model") continue;
    (line += line.empty() ? "" : ", ") += key + " " + printable(value);
  }
  return line.empty() ? text : text + wrapped(shortened(line, 2 * kColumns), "");
}

template <class... T>
std::string line(const char* format, T... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string cell(Flops f) { return f.value > 0 ? to_string(f) : "-"; }

// Products and seconds of all runs; a price shows one run too, a painting what was measured.
std::string table(const Subject& s, const Summary& m) {
  const auto row = [&](const std::string& phase, const std::string& times, const std::string& memory,
                       const std::string& products, const std::string& one_run, const std::string& all,
                       const std::string& measured, std::string_view bound) {
    std::string text = line("%-12s %5s %10s %12s", phase.c_str(), times.c_str(), memory.c_str(), products.c_str());
    text += line(" %10s %10s", (s.trace ? all : one_run).c_str(), (s.trace ? measured : all).c_str());
    return text + line("  %s\n", std::string(bound).c_str());
  };
  std::string text = row("phase", "times", "memory", "products", "one run", s.trace ? "predicted" : "all runs",
                         "measured", "bound by");
  for (const PhaseRow& p : m.phases)
    text += row(p.name, std::to_string(p.times), to_string(p.peak),
                cell(p.work.products * static_cast<double>(p.times)), to_string(p.cost.seconds),
                to_string(p.total.seconds), p.measured ? to_string(*p.measured) : "-", name(p.cost.bound));
  return text + row("all", "", to_string(s.plan.peak + s.base), cell(s.plan.work.products), "",
                    to_string(s.plan.cost.seconds), to_string(s.seconds), name(s.plan.cost.bound));
}

std::string peak_line(const Subject& s, const Summary& m) {
  return wrapped("memory: " + to_string(s.plan.peak + s.base) + " while it is at \"" + m.peak_during + "\" = weights " +
                     to_string(s.plan.weights) + " + arena " + to_string(s.plan.arena) + " + buffers " +
                     to_string(s.plan.io_bytes) + " + the process itself " + to_string(s.base),
                 "  ");
}

}  // namespace

std::string report_text(const Subject& s) {
  const Summary m = summarise(s);
  std::string text = header(s) + "\n" + table(s, m) + "\n" + peak_line(s, m) + "\n";
  for (const std::string& sentence : verdict(s, m)) text += wrapped(printable(sentence), "  ");
  for (const std::string& note : s.notes) text += wrapped("note: " + printable(note), "  ");
  return text;
}

}  // namespace danqing
