// danqing: paints, prices and explains. Errors end here: one sentence, and an exit code that scripts can use.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "app/command.h"
#include "base/error.h"

namespace danqing {
namespace {

struct Verb {
  const char* name;
  int (*run)(const Arguments&);
  const char* help;
};

constexpr Verb kVerbs[] = {
    {"paint", command_paint, "paint a picture from a prompt"},
    {"price", command_price, "say what it would take: memory, seconds, what binds; reads headers only"},
    {"inspect", command_inspect, "say what a checkpoint is, and what of it is missing or unused"},
    {"probe", command_probe, "measure this machine once, so that prices come true"},
    {"samplers", command_samplers, "list samplers and schedules"},
    {"models", command_models, "list the models at hand"},
    {"cards", command_cards, "list the graphics cards in the catalogue"},
};

void print_help() {
  std::puts("danqing: text to image, on hardware that it knows.\n\n  danqing paint \"a red fox\" -m FILE -o fox.png\n");
  for (const Verb& verb : kVerbs) std::printf("  danqing %-9s %s\n", verb.name, verb.help);
  std::puts("\n`danqing VERB --help` lists a verb's options.");
}

int exit_code(Fault fault) {
  switch (fault) {
    case Fault::request:
    case Fault::file:
      return kBadRequest;
    case Fault::capacity:
      return kDoesNotFit;
    case Fault::cancelled:
      return kInterrupted;
    case Fault::numeric:
      break;
  }
  return kInternal;
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes becomes an error of write(), with a sentence
  const std::string name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") return print_help(), kDone;
  if (name == "--version") return std::puts("danqing 0.1.0"), kDone;
  for (const Verb& verb : kVerbs)
    if (name == verb.name) return verb.run(Arguments(argv + 2, argv + argc));
  std::string known;
  for (const Verb& verb : kVerbs) (known += known.empty() ? "" : ", ") += verb.name;
  throw Error(Fault::request, "\"" + name + "\" is no verb; known are " + known);
}

}  // namespace
}  // namespace danqing

int main(int argc, char** argv) {
  using namespace danqing;
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "danqing: %s\n", e.what());
    return exit_code(e.fault());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "danqing: the system has no memory left\n");
    return kDoesNotFit;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "danqing: %s\n", e.what());
    return kInternal;
  }
}
