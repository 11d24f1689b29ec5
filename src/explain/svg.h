// Strokes of which charts are made. Colours are names of the page's CSS variables ("--a"), so they follow its light or
// dark scheme.
#pragma once

#include <string>
#include <vector>

namespace danqing::svg {

// Text for HTML and SVG; control characters become spaces.
std::string escaped(const std::string& text);

std::string number(double v);  // one decimal; 0 for what is not finite
// `said`: what it shows, for readers that see no pictures.
std::string picture(double width, double height, const std::string& inner, const std::string& said,
                    const char* kind = "");
std::string text(double x, double y, const std::string& words, const char* anchor = "start", const char* kind = "");
std::string rect(double x, double y, double w, double h, const char* colour, double opacity = 1);
std::string path(const std::string& d, const char* colour, double width, const char* dashes = "");
std::string horizontal(double x0, double x1, double y);  // a line of the grid
std::string vertical(double x, double y0, double y1);
std::string at(double x, double y);  // of a path: "12.0 3.5 "

// Round values from 0 to `most`, at most six: 1, 2 or 5 times a power of ten, or powers of two for bytes.
std::vector<double> decimal_ticks(double most);
std::vector<double> binary_ticks(double most);

}  // namespace danqing::svg
