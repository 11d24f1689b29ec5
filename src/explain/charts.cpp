#include "explain/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace danqing {

namespace {

constexpr double kWidth = 800;

std::string n(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::isfinite(v) ? v : 0.0);
  return text;
}

std::string svg(double height, const std::string& inner) {
  return "<svg viewBox=\"0 0 " + n(kWidth) + " " + n(height) + "\" role=\"img\">" + inner + "</svg>";
}

std::string text(double x, double y, const std::string& words, const char* anchor = "start", const char* kind = "") {
  return "<text x=\"" + n(x) + "\" y=\"" + n(y) + "\" text-anchor=\"" + anchor + "\" class=\"" + kind + "\">" +
         escaped(words) + "</text>";
}

std::string rect(double x, double y, double w, double h, const char* colour, double opacity = 1) {
  return "<rect x=\"" + n(x) + "\" y=\"" + n(y) + "\" width=\"" + n(std::max(w, 0.0)) + "\" height=\"" + n(h) +
         "\" rx=\"2\" fill=\"var(" + colour + ")\" fill-opacity=\"" + n(opacity) + "\"/>";
}

std::string path(const std::string& d, const char* colour, double width, const char* extra = "") {
  return "<path d=\"" + d + "\" fill=\"none\" stroke=\"var(" + colour + ")\" stroke-width=\"" + n(width) + "\" " +
         extra + "/>";
}

std::string at(double x, double y) { return n(x) + " " + n(y) + " "; }

}  // namespace

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
  }
  return out;
}

std::string bars(const std::vector<Bar>& all) {
  constexpr double kRow = 30, kLeft = 130, kRight = 110;
  double most = 0;
  for (const Bar& b : all) most = std::max({most, b.predicted, b.measured});
  const double scale = most > 0 ? (kWidth - kLeft - kRight) / most : 0;
  std::string inner;
  double y = 4;
  for (const Bar& b : all) {
    inner += text(kLeft - 8, y + 15, b.label, "end");
    const bool both = b.measured > 0;
    inner += rect(kLeft, y, b.predicted * scale, both ? 9 : 20, "--b", both ? 0.6 : 1);
    if (both) inner += rect(kLeft, y + 11, b.measured * scale, 9, "--a");
    inner += text(kLeft + std::max(b.predicted, b.measured) * scale + 8, y + 15, b.value, "start", "soft");
    y += kRow;
  }
  const bool measured = std::ranges::any_of(all, [](const Bar& b) { return b.measured > 0; });
  inner +=
      rect(kLeft, y + 2, 12, 9, "--b", measured ? 0.6 : 1) + text(kLeft + 18, y + 11, "predicted", "start", "soft");
  if (measured)
    inner += rect(kLeft + 100, y + 2, 12, 9, "--a") + text(kLeft + 118, y + 11, "measured", "start", "soft");
  return svg(y + 18, inner);
}

std::string timeline(const std::vector<MemoryMoment>& moments, Bytes base, Bytes limit) {
  constexpr double kLeft = 70, kTop = 14, kHeight = 190, kRight = 10;
  if (moments.empty()) return svg(30, text(8, 20, "nothing was recorded", "start", "soft"));
  double most = 0;
  const MemoryMoment* peak = &moments.front();
  for (const MemoryMoment& m : moments)
    if (m.allocated > peak->allocated) peak = &m;
  most = static_cast<double>((peak->allocated + base).value);
  const bool near = limit.value > 0 && static_cast<double>(limit.value) < most * 2.5;
  const double ceiling = std::max(near ? static_cast<double>(limit.value) : 0.0, most) * 1.08;
  const double end = std::max(moments.back().at.value, 1e-9);
  const auto x = [&](double seconds) { return kLeft + seconds / end * (kWidth - kLeft - kRight); };
  const auto y = [&](double bytes) { return kTop + kHeight * (1 - bytes / ceiling); };
  std::string line = "M" + at(x(0), y(static_cast<double>(base.value)));
  for (const MemoryMoment& m : moments) {
    line += "H" + n(x(m.at.value)) + " V" + n(y(static_cast<double>((m.allocated + base).value))) + " ";
  }
  std::string inner = "<path d=\"" + line + "V" + n(y(0)) + " H" + n(x(0)) +
                      " Z\" fill=\"var(--b)\" fill-opacity=\"0.25\"/>" + path(line, "--b", 2);
  for (int i = 0; i <= 4; ++i) {
    const double bytes = ceiling * i / 4;
    inner += path("M" + at(kLeft, y(bytes)) + "H" + n(kWidth - kRight), "--line", 1);
    inner += text(kLeft - 6, y(bytes) + 4, to_string(Bytes(static_cast<int64_t>(bytes))), "end", "soft");
    inner += text(x(end * i / 4), kTop + kHeight + 18, to_string(Seconds(end * i / 4)),
                  i == 0   ? "start"
                  : i == 4 ? "end"
                           : "middle",
                  "soft");
  }
  if (near)
    inner += path("M" + at(kLeft, y(static_cast<double>(limit.value))) + "H" + n(kWidth - kRight), "--a", 2,
                  "stroke-dasharray=\"6 4\"") +
             text(kWidth - kRight, y(static_cast<double>(limit.value)) - 5, "limit " + to_string(limit), "end");
  inner += text(std::clamp(x(peak->at.value), kLeft + 60, kWidth - 90), y(most) - 5,
                to_string(peak->allocated + base) + " at " + peak->what, "middle");
  return svg(kTop + kHeight + 26, inner);
}

std::string roofline(const std::vector<RoofPoint>& points, double peak, double bandwidth) {
  constexpr double kLeft = 110, kTop = 14, kHeight = 320, kRight = 24;
  if (peak <= 0 || bandwidth <= 0 || points.empty())
    return svg(30, text(8, 20, "no roof is known for this machine", "start", "soft"));
  double lowest = peak / 100, least = 0.1, greatest = 1000, weight = 0;
  for (const RoofPoint& p : points) {
    lowest = std::min(lowest, p.rate / 2), least = std::min(least, p.intensity / 2);
    greatest = std::max(greatest, p.intensity * 3), weight = std::max(weight, p.weight);
  }
  const auto x = [&](double v) {
    return kLeft + std::log(v / least) / std::log(greatest / least) * (kWidth - kLeft - kRight);
  };
  const auto y = [&](double v) { return kTop + kHeight * (1 - std::log(v / lowest) / std::log(peak * 2 / lowest)); };
  const double knee = peak / bandwidth;
  std::string inner;
  for (double decade = std::pow(10, std::ceil(std::log10(lowest))); decade <= peak * 2; decade *= 10)
    inner += path("M" + at(kLeft, y(decade)) + "H" + n(kWidth - kRight), "--line", 1) +
             text(kLeft - 6, y(decade) + 4, to_string(Flops(decade)) + "/s", "end", "soft");
  for (double decade = std::pow(10, std::ceil(std::log10(least))); decade <= greatest; decade *= 10)
    inner += path("M" + at(x(decade), kTop) + "V" + n(kTop + kHeight), "--line", 1) +
             text(x(decade), kTop + kHeight + 18, n(decade), "middle", "soft");
  inner += text(kWidth - kRight, kTop + kHeight + 34, "FLOP a byte", "end", "soft");
  const double start = std::max(least, lowest / bandwidth);
  inner += path("M" + at(x(start), y(start * bandwidth)) + "L" + at(x(knee), y(peak)) + "H" + n(kWidth - kRight), "--a",
                2.5);
  inner += text(kWidth - kRight, y(peak) - 6, to_string(Flops(peak)) + "/s", "end");
  inner += text(x(knee) - 8, y(peak) - 6, "knee at " + n(knee) + " FLOP a byte", "end", "soft");
  std::vector<double> taken;  // heights of labels, so that none covers another
  for (const RoofPoint& p : points) {
    const double radius = 4 + 14 * std::sqrt(weight > 0 ? p.weight / weight : 0);
    inner += "<circle cx=\"" + n(x(p.intensity)) + "\" cy=\"" + n(y(p.rate)) + "\" r=\"" + n(radius) +
             "\" fill=\"var(--b)\" fill-opacity=\"0.5\" stroke=\"var(--b)\"><title>" + escaped(p.label) +
             "</title></circle>";
    if (p.weight < weight / 60) continue;
    double label = y(p.rate) + 4;
    while (std::ranges::any_of(taken, [&](double other) { return std::fabs(other - label) < 13; })) label += 13;
    taken.push_back(label);
    const bool right = x(p.intensity) < kWidth * 0.6;
    inner += text(x(p.intensity) + (right ? radius + 5 : -radius - 5), label, p.label, right ? "start" : "end");
  }
  return svg(kTop + kHeight + 42, inner);
}

}  // namespace danqing
