#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/prepared.h"

namespace danqing {

int command_price(const Arguments& arguments) {
  Request request;
  bool json = false;
  std::vector<std::string> words;
  const Usage usage{"price",
                    "danqing price MODEL [the options of paint] [--json]",
                    {{"--json", "", "for scripts", [&](auto&) { json = true; }}},
                    &request,
                    [&](const std::string& word) { words.push_back(word); }};
  if (!parse(usage, arguments)) return kDone;
  if (!words.empty() && request.model.empty()) request.model = words.front(), words.erase(words.begin());
  if (!words.empty()) request.prompt = words;
  if (!request.seed) request.seed = 0;
  std::vector<std::string> notes;
  std::optional<Shortfall> shortfall;
  const auto [job, workplace] = prepare_here(
      request, [&](const std::string& text) { notes.push_back(text); }, &shortfall);
  Subject subject = subject_of(*job, workplace);
  subject.notes = notes;
  if (shortfall) subject.remedies = shortfall->remedies;
  if (json)
    std::printf("%s\n", report_json(subject).dump(2).c_str());
  else
    std::printf("%s", report_text(subject).c_str());
  return shortfall ? kDoesNotFit : kDone;
}

}  // namespace danqing
