#include "app/prepared.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace danqing {

static constexpr const char* kOwnModel = "danqing-small.safetensors";

static void say(const Shortfall& s) {
  std::fprintf(stderr, "danqing: does not fit: needs %s, %s may be used, %s too little\n", to_string(s.needed).c_str(),
               to_string(s.limit).c_str(), to_string(s.needed - s.limit).c_str());
  for (const std::string& remedy : s.remedies) std::fprintf(stderr, "  this would do: %s\n", remedy.c_str());
  if (s.remedies.empty()) std::fprintf(stderr, "  no single change would do\n");
}

Here prepare_here(Request request, const Note& note, std::optional<Shortfall>* shortfall) {
  const Places places = find_places();
  if (request.model.empty()) {
    request.model = places.models + "/" + kOwnModel;
    if (!std::filesystem::exists(request.model))
      throw Error(Fault::request, "no model named, and the small one (" + std::string(kOwnModel) +
                                      ") is not there; name one with -m FILE");
  }
  Here here;
  here.workplace = workplace_here(request, note);
  Prepared prepared = prepare(std::move(request), here.workplace, places);
  if (prepared.job)
    for (const std::string& text : prepared.job->notes) note(text);
  if (shortfall)
    *shortfall = prepared.shortfall;
  else if (prepared.shortfall)
    return say(*prepared.shortfall), here;
  here.job = std::move(prepared.job);
  return here;
}

Subject subject_of(const Job& job, const Workplace& w) {
  Subject s{job.program, job.plan, w.machine};
  s.base = w.base, s.limit = w.limit;
  s.fits = w.limit.value == 0 || job.plan.peak + w.base <= w.limit;
  nlohmann::json request = to_json(job.request);
  request["width"] = *job.request.width, request["height"] = *job.request.height;
  s.request_json = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  s.title = job.model->title;
  s.notes = job.notes;
  return s;
}

void introduce(const Job& job) {
  std::fprintf(stderr, "%s (%s)%s%s\n", job.model->title.c_str(), std::string(name(job.model->family)).c_str(),
               job.model->description.empty() ? "" : ": ", job.model->description.c_str());
}

}  // namespace danqing
