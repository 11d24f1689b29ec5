#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/prepared.h"
#include "app/terminal.h"
#include "hardware/host.h"
#include "pipeline/metadata.h"
#include "run/cpu/device.h"

namespace danqing {

namespace {

struct PaintOptions {
  std::string output, report, again;
  bool overwrite = false, quiet = false;
};

// Everything about the place of the files that can go wrong is found before the first step.
void check_output(const PaintOptions& o, bool several) {
  namespace fs = std::filesystem;
  const auto exists = [](const std::string& path) {
    std::error_code none;
    return fs::exists(path, none);
  };
  const auto check_folder = [](const std::string& path) {
    const fs::path folder = fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path();
    std::error_code none;
    if (!fs::is_directory(folder, none))
      throw Error(Fault::request, path + ": the folder " + folder.string() + " does not exist");
    if (access(folder.c_str(), W_OK) != 0)
      throw Error(Fault::request, path + ": the folder " + folder.string() + " cannot be written to");
  };
  if (!o.output.empty()) {
    check_picture_ending(o.output);
    check_folder(o.output);
    if (!several && !o.overwrite && exists(o.output))
      throw Error(Fault::request, o.output + " exists; --overwrite replaces it");
  }
  if (o.report.empty()) return;
  const std::string ending = fs::path(o.report).extension().string();
  if (ending != ".json" && ending != ".html")
    throw Error(Fault::request, "--report: " + o.report + " must end in .json or .html");
  check_folder(o.report);
  if (!o.overwrite && exists(o.report)) throw Error(Fault::request, o.report + " exists; --overwrite replaces it");
}

std::string save(const Job& job, const PaintOptions& o, const Image& image, int64_t index, bool several) {
  namespace fs = std::filesystem;
  const Metadata metadata = metadata_of(job, index);
  if (o.output.empty()) return write_numbered(".", safe_stem(job.request.prompt.front()), "png", image, metadata);
  const fs::path path = o.output;
  if (several) {
    const std::string folder = path.parent_path().empty() ? "." : path.parent_path().string();
    return write_numbered(folder, path.stem().string(), path.extension().string().substr(1), image, metadata);
  }
  write_image(o.output, image, metadata, {}, o.overwrite ? Existing::replace : Existing::refuse);
  return o.output;
}

void write_report(const Job& job, const Workplace& workplace, const PaintOptions& o, const Painting& painting) {
  Subject subject = subject_of(job, workplace);
  subject.trace = &painting.trace;
  subject.rss_peak = process_memory().peak;
  subject.seconds = painting.trace.seconds;
  const std::string text = o.report.ends_with(".html") ? report_html(subject) : report_json(subject).dump(2) + "\n";
  write_file(o.report, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()),
             o.overwrite ? Existing::replace : Existing::refuse);
}

// The value of --again, in either form: it must be known before the other flags are read.
std::string picture_to_repeat(const Arguments& arguments) {
  const std::string flag = "--again";
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
    if (arguments[i] == flag && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return {};
}

Request request_from(const Arguments& arguments, PaintOptions& o, bool& stop) {
  Request request;
  std::vector<std::string> prompts;
  const Usage usage{
      "paint",
      "danqing paint PROMPT [-m MODEL] [-o FILE.png|jpg|webp] [options]",
      {{"-o, --output", "FILE", "where to; several pictures get numbers (default: named after the prompt)",
        [&](auto& v) { o.output = v; }},
       {"--report", "FILE", "predicted beside measured, as .json or .html", [&](auto& v) { o.report = v; }},
       {"--again", "PICTURE", "paint a picture once more from what it carries", [&](auto& v) { o.again = v; }},
       {"--overwrite", "", "replace files that exist", [&](auto&) { o.overwrite = true; }},
       {"-q, --quiet", "", "no progress", [&](auto&) { o.quiet = true; }}},
      &request,
      [&](const std::string& word) { prompts.push_back(word); }};
  // What the picture carries comes first; flags change it.
  if (const std::string picture = picture_to_repeat(arguments); !picture.empty()) request = request_of_picture(picture);
  stop = !parse(usage, arguments);
  if (!prompts.empty()) request.prompt = prompts;
  return request;
}

}  // namespace

int command_paint(const Arguments& arguments) {
  PaintOptions o;
  bool stop = false;
  Request request = request_from(arguments, o, stop);
  if (stop) return kDone;
  if (request.prompt.empty() && o.again.empty())
    throw Error(Fault::request, "what shall be painted? danqing paint \"a red fox\"");
  const bool several =
      std::max<int64_t>(request.batch, static_cast<int64_t>(request.prompt.size())) * request.count > 1;
  check_output(o, several);
  const Note note = [&](const std::string& text) {
    if (!o.quiet) std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  const auto [job, workplace] = prepare_here(request, note);
  if (!job) return kDoesNotFit;
  if (!o.quiet) introduce(*job);
  const auto device = cpu::make_device(workplace.ways);
  if (workplace.limit.value) device->set_limit(workplace.limit - workplace.base);
  ProgressLine line(o.quiet);
  PaintHooks hooks;
  hooks.progress = [&](const Progress& p) { line.show(p); };
  hooks.cancel = &stop_on_signals();
  hooks.picture = [&](int64_t index, const Image& image) {
    const std::string path = save(*job, o, image, index, several);
    line.clear();
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
  };
  const Painting painting = paint(*job, *device, hooks);
  line.clear();
  if (!o.report.empty()) write_report(*job, workplace, o, painting);
  if (!o.quiet)
    std::fprintf(stderr, "%s, %s at most (predicted %s, %s)\n", to_string(painting.trace.seconds).c_str(),
                 to_string(painting.trace.allocated_peak + workplace.base).c_str(),
                 to_string(job->plan.cost.seconds).c_str(), to_string(job->plan.peak + workplace.base).c_str());
  return kDone;
}

}  // namespace danqing
