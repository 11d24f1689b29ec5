#include "explain/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace danqing::svg {

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
    }
  }
  return out;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::isfinite(v) ? std::clamp(v, -1e6, 1e6) : 0.0);
  return text;
}

std::string picture(double width, double height, const std::string& inner, const std::string& said, const char* kind) {
  return "<svg viewBox=\"0 0 " + number(width) + " " + number(height) + "\" class=\"" + kind +
         "\" role=\"img\" aria-label=\"" + escaped(said) + "\">" + inner + "</svg>";
}

std::string text(double x, double y, const std::string& words, const char* anchor, const char* kind) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" class=\"" + kind +
         "\">" + escaped(words) + "</text>";
}

std::string rect(double x, double y, double w, double h, const char* colour, double opacity) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(std::max(w, 0.0)) + "\" height=\"" +
         number(h) + "\" rx=\"2\" fill=\"var(" + colour + ")\" fill-opacity=\"" + number(opacity) + "\"/>";
}

std::string path(const std::string& d, const char* colour, double width, const char* dashes) {
  return "<path d=\"" + d + "\" fill=\"none\" stroke=\"var(" + colour + ")\" stroke-width=\"" + number(width) +
         "\" stroke-dasharray=\"" + dashes + "\"/>";
}

std::string horizontal(double x0, double x1, double y) { return path("M" + at(x0, y) + "H" + number(x1), "--line", 1); }
std::string vertical(double x, double y0, double y1) { return path("M" + at(x, y0) + "V" + number(y1), "--line", 1); }

std::string at(double x, double y) { return number(x) + " " + number(y) + " "; }

static std::vector<double> multiples(double step, double most) {
  std::vector<double> ticks;
  for (int i = 0; i < 7 && step * i <= most * 1.0001; ++i) ticks.push_back(step * i);
  return ticks;
}

std::vector<double> decimal_ticks(double most) {
  if (!(most > 0) || !std::isfinite(most)) return {0};
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (double step : {1, 2, 5})
    if (step * power * 5 >= most) return multiples(step * power, most);
  return multiples(10 * power, most);
}

std::vector<double> binary_ticks(double most) {
  if (!(most > 0) || !std::isfinite(most)) return {0};
  return multiples(std::exp2(std::ceil(std::log2(most / 5))), most);
}

}  // namespace danqing::svg
