// Command line options: the fields of a request (pipeline/request.h) and what a verb adds.
#pragma once

#include <functional>

#include "app/command.h"
#include "pipeline/request.h"

namespace danqing {

struct Flag {
  std::string name;   // "--json"
  std::string value;  // "FILE"; empty: a switch
  std::string help;
  std::function<void(const std::string&)> set;
};

struct Usage {
  std::string verb, line;  // "danqing paint PROMPT [options]"
  std::vector<Flag> flags;
  Request* request = nullptr;                          // take a request's fields too
  std::function<void(const std::string&)> positional;  // what stands alone
};

// Throws Error(request) for what is not known or has a wrong value. False: help was asked for and printed.
bool parse(const Usage&, const Arguments&);

}  // namespace danqing
