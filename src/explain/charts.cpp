#include "explain/charts.h"

#include <algorithm>

#include "explain/svg.h"

namespace danqing {

using namespace svg;

static constexpr double kWidth = 720;

// Narrower than the others, so that a phone shows them whole.
std::string bars(const std::vector<Bar>& all) {
  constexpr double kWidth = 480, kRow = 32, kLeft = 130, kRight = 75;
  const bool traced = std::ranges::any_of(all, [](const Bar& b) { return b.measured > 0; });
  double most = 0;
  for (const Bar& b : all) most = std::max({most, b.predicted, b.measured});
  const double scale = most > 0 ? (kWidth - kLeft - kRight) / most : 0;
  std::string inner;
  double y = 4;
  for (const Bar& b : all) {
    inner += text(kLeft - 10, y + 15, b.label, "end");
    inner += rect(kLeft, y, b.predicted * scale, traced ? 9 : 20, "--b", traced ? 0.5 : 0.9);
    if (traced) inner += rect(kLeft, y + 11, b.measured * scale, 9, "--a");
    inner += text(kLeft + std::max(b.predicted, b.measured) * scale + 8, y + 15, b.value, "start", "soft");
    y += kRow;
  }
  if (!traced) return picture(kWidth, y, inner, "predicted seconds", "narrow");
  inner += rect(kLeft, y + 4, 12, 9, "--b", 0.5) + text(kLeft + 18, y + 13, "predicted", "start", "soft");
  inner += rect(kLeft + 110, y + 4, 12, 9, "--a") + text(kLeft + 128, y + 13, "measured", "start", "soft");
  return picture(kWidth, y + 20, inner, "seconds, predicted and measured", "narrow");
}

namespace {

double value(Bytes b) { return static_cast<double>(b.value); }

// Draws moments into the frame of a timeline.
struct Frame {
  double seconds = 1, bytes = 1;  // at the right and the upper edge
  static constexpr double kLeft = 80, kRight = kWidth - 12, kTop = 22, kBottom = 232;

  double x(double s) const { return kLeft + s / seconds * (kRight - kLeft); }
  double y(double b) const { return kBottom - b / bytes * (kBottom - kTop); }

  std::string steps(const std::vector<MemoryMoment>& moments, Bytes base) const {
    std::string d = "M" + at(x(0), y(value(base)));
    for (const MemoryMoment& m : moments)
      d += "H" + number(x(m.at.value)) + " V" + number(y(value(m.allocated + base))) + " ";
    return d;
  }

  std::string axes() const {
    std::string inner;
    for (double tick : binary_ticks(bytes))
      inner +=
          horizontal(kLeft, kRight, y(tick)) +
          text(kLeft - 8, y(tick) + 4, tick > 0 ? to_string(Bytes(static_cast<int64_t>(tick))) : "0", "end", "soft");
    for (double tick : decimal_ticks(seconds))
      inner += text(x(tick), kBottom + 20, tick > 0 ? to_string(Seconds(tick)) : "0",
                    x(tick) > kRight - 20 ? "end" : "middle", "soft");
    return inner;
  }

  // What is going on, in every stretch that is wide enough for its name.
  std::string names(const std::vector<MemoryMoment>& moments) const {
    std::string inner;
    for (size_t i = 0; i + 1 < moments.size(); ++i) {
      const double from = x(moments[i].at.value), to = x(moments[i + 1].at.value);
      if (to - from > 8.0 * static_cast<double>(moments[i].what.size()))
        inner += text((from + to) / 2, kBottom - 8, moments[i].what, "middle", "soft");
    }
    return inner;
  }
};

const MemoryMoment& peak_of(const std::vector<MemoryMoment>& moments) {
  return *std::ranges::max_element(moments, {}, &MemoryMoment::allocated);
}

}  // namespace

std::string timeline(const Timeline& t) {
  const auto& shown = t.measured.empty() ? t.planned : t.measured;
  if (shown.empty()) return picture(kWidth, 30, text(8, 20, "nothing was recorded", "start", "soft"), "no memory");
  const MemoryMoment& peak = peak_of(shown);
  double most = value(peak.allocated + t.base), end = shown.back().at.value;
  if (!t.planned.empty())
    most = std::max(most, value(peak_of(t.planned).allocated + t.base)), end = std::max(end, t.planned.back().at.value);
  const double limit = value(t.limit);
  const bool near = limit > 0 && limit < most * 2.5;
  const Frame f{std::max(end, 1e-9), std::max({most, near ? limit : 0.0, 1.0}) * 1.1};
  const std::string line = f.steps(shown, t.base);
  std::string inner = f.axes();
  inner += "<path d=\"" + line + "V" + number(f.y(0)) + " H" + number(f.x(0)) +
           " Z\" fill=\"var(--b)\" fill-opacity=\"0.2\"/>";
  if (!t.measured.empty() && !t.planned.empty()) inner += path(f.steps(t.planned, t.base), "--c", 1.5, "5 4");
  inner += path(line, "--b", 2) + f.names(shown);
  const std::string said = to_string(peak.allocated + t.base) + " at most (" + peak.what + ")";
  inner += text(std::clamp(f.x(peak.at.value), f.kLeft + 90, f.kRight - 90), f.y(most) - 7, said, "middle");
  if (near) inner += path("M" + at(f.kLeft, f.y(limit)) + "H" + number(f.kRight), "--a", 2, "6 4");
  if (limit > 0)
    inner += text(f.kRight, near ? f.y(limit) - 6 : 14,
                  "limit " + to_string(t.limit) + (near ? "" : ", above the picture"), "end", near ? "" : "soft");
  return picture(kWidth, f.kBottom + 28, inner, said);
}

}  // namespace danqing
