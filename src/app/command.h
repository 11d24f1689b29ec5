// The verbs of the command line. Each takes its arguments (its own name left out) and gives an exit code.
#pragma once

#include <string>
#include <vector>

namespace danqing {

using Arguments = std::vector<std::string>;

int command_paint(const Arguments&);
int command_price(const Arguments&);
int command_inspect(const Arguments&);
int command_probe(const Arguments&);
int command_samplers(const Arguments&);
int command_models(const Arguments&);
int command_cards(const Arguments&);

inline constexpr int kDone = 0, kInternal = 1, kBadRequest = 2, kDoesNotFit = 3, kInterrupted = 130;

}  // namespace danqing
