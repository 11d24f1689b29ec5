// The roofline plot: rate over intensity, both as logarithms, beneath the roofs of bandwidth and arithmetic.
#include <algorithm>
#include <cmath>

#include "explain/charts.h"
#include "explain/svg.h"

namespace danqing {

using namespace svg;

namespace {

struct Plane {
  double least, greatest;  // FLOP a byte at the left and right edge
  double lowest, highest;  // FLOP/s at the lower and upper edge
  static constexpr double kWidth = 720, kLeft = 100, kRight = kWidth - 16, kTop = 16, kBottom = 336;

  double x(double v) const { return kLeft + std::log(v / least) / std::log(greatest / least) * (kRight - kLeft); }
  double y(double v) const { return kBottom - std::log(v / lowest) / std::log(highest / lowest) * (kBottom - kTop); }

  std::string axes() const {
    std::string inner;
    for (double v = std::pow(10, std::ceil(std::log10(lowest))); v <= highest; v *= 10)
      inner += horizontal(kLeft, kRight, y(v)) + text(kLeft - 8, y(v) + 4, to_string(Flops(v)) + "/s", "end", "soft");
    for (double v = std::pow(10, std::ceil(std::log10(least))); v <= greatest; v *= 10) {
      const std::string tick = number(v);
      inner += vertical(x(v), kTop, kBottom) +
               text(x(v), kBottom + 20, v >= 1 ? tick.substr(0, tick.size() - 2) : tick, "middle", "soft");
    }
    return inner + text(kRight, kBottom + 38, "FLOP for each byte moved", "end", "soft");
  }

  std::string roofs(double peak, double bandwidth) const {
    const double knee = peak / bandwidth, start = std::max(least, lowest / bandwidth);
    std::string inner =
        path("M" + at(x(start), y(start * bandwidth)) + "L" + at(x(knee), y(peak)) + "H" + number(kRight), "--a", 2.5);
    inner += text(kRight, y(peak) - 7, "arithmetic: " + to_string(Flops(peak)) + "/s", "end");
    // Beside the slope, half way up: words on a line that climbs would be hard to read.
    const double middle = std::sqrt(start * knee);
    return inner +
           text(x(middle) - 10, y(middle * bandwidth) - 8, "bandwidth: " + number(bandwidth / 1e9) + " GB/s", "end");
  }
};

bool drawable(const RoofPoint& p) {
  return p.intensity > 0 && p.rate > 0 && std::isfinite(p.intensity) && std::isfinite(p.rate);
}

// Room on both sides of the knee, and as near as it fits: points that take no time to speak of may stretch the plane by
// no more than a few decades.
Plane plane_around(const std::vector<RoofPoint>& points, double peak, double bandwidth) {
  const double knee = peak / bandwidth;
  Plane p{knee / 30, knee * 30, peak / 100, peak * 2};
  for (const RoofPoint& point : points) {
    if (!drawable(point)) continue;
    p.least = std::min(p.least, std::max(point.intensity / 2, knee * 1e-4));
    p.greatest = std::max(p.greatest, std::min(point.intensity * 2, knee * 1e4));
    p.lowest = std::min(p.lowest, std::max(point.rate / 2, peak * 1e-4));
    p.highest = std::max(p.highest, std::min(point.rate * 2, peak * 1e2));
  }
  return p;
}

}  // namespace

std::string roofline(const std::vector<RoofPoint>& points, double peak, double bandwidth) {
  if (!(peak > 0) || !(bandwidth > 0) || std::ranges::none_of(points, drawable))
    return picture(Plane::kWidth, 30, text(8, 20, "no roof is known for this machine", "start", "soft"), "no roofline");
  const Plane plane = plane_around(points, peak, bandwidth);
  std::string inner = plane.axes() + plane.roofs(peak, bandwidth), numbers;
  double heaviest = 0;
  for (const RoofPoint& p : points) heaviest = std::max(heaviest, p.weight);
  struct Label {
    double x, y;
  };
  std::vector<Label> taken;
  for (size_t i = 0; i < points.size(); ++i) {
    const RoofPoint& p = points[i];
    if (!drawable(p)) continue;
    const double radius = 4 + 15 * std::sqrt(heaviest > 0 ? p.weight / heaviest : 0);
    const double x = std::clamp(plane.x(p.intensity), plane.kLeft, plane.kRight),
                 y = std::clamp(plane.y(p.rate), plane.kTop, plane.kBottom);
    inner += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(radius) + "\" fill=\"var(" +
             p.colour + ")\" fill-opacity=\"0.4\" stroke=\"var(" + p.colour + ")\"><title>" + escaped(p.label) +
             "</title></circle>";
    Label label{x, y + 4};  // inside where the disc is large enough, else above; lower where another number stands
    if (radius < 9) label.y = y - radius - 3;
    while (std::ranges::any_of(
        taken, [&](const Label& o) { return std::fabs(o.x - label.x) < 15 && std::fabs(o.y - label.y) < 12; }))
      label.y += 12;
    taken.push_back(label);
    numbers += text(label.x, label.y, std::to_string(i + 1), "middle", "mark");
  }
  return picture(Plane::kWidth, Plane::kBottom + 46, inner + numbers, "roofline");
}

}  // namespace danqing
