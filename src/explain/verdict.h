// The verdict in plain sentences with numbers, for text, JSON and HTML alike.
#pragma once

#include "explain/summary.h"

namespace danqing {

// Does it fit, what binds it, what would help, where the time goes; with a trace: did the price come true.
std::vector<std::string> verdict(const Subject&, const Summary&);

std::string percent(double share);                     // "87 %", "4.2 %", "0.3 %"
std::string apart(double predicted, double measured);  // "12 % less", "40 times more", "the same"

}  // namespace danqing
