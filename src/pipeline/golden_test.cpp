// Whole pictures against the reference pipelines, step by step, in f32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pipeline/paint.h"
#include "run/cpu/device.h"

namespace danqing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kGolden = fs::path(DANQING_GOLDEN) / "pipeline", kSd15 = kGolden / "sd15";

std::vector<float> tensor(const Checkpoint& file, const std::string& name) {
  const TensorInfo* t = file.find(name);
  if (!t) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(static_cast<size_t>(t->shape.count()));
  file.read(*t, std::as_writable_bytes(std::span(values)));
  return values;
}

// Python writes infinities, which JSON does not know; none of them is asked for here.
json read_case(const fs::path& path) {
  std::ifstream stream(path);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (size_t at; (at = text.find("-Infinity")) != std::string::npos;) text.replace(at, 9, "null");
  return json::parse(text);
}

// max(8 x the distance of two valid evaluations, 1e-4 of the largest value), as the case's JSON says.
double tolerance(const json& c, const std::string& name) {
  const json& t = c["tolerance"]["f32_vs_f64"][name];
  return std::max(8 * t["max_abs"].get<double>(), 1e-4 * t["max_abs_value"].get<double>());
}

Request request_of(const json& run) {
  Request r;
  r.like = "diffusers";
  r.precision = "f32";
  const json& a = run["arguments"];
  r.prompt = a["prompt"].get<std::vector<std::string>>();
  if (a.contains("negative_prompt")) r.negative = a["negative_prompt"].get<std::vector<std::string>>();
  r.width = run["width"], r.height = run["height"];
  r.steps = a["num_inference_steps"], r.cfg = a["guidance_scale"].get<double>();
  r.sampler = run["scheduler"]["class"].get<std::string>();
  if (run["scheduler"]["config"].value("use_karras_sigmas", false)) r.schedule = "karras";
  r.seed = run["seeds"][0].get<uint64_t>();
  if (a.contains("clip_skip")) r.clip_skip = 1 + a["clip_skip"].get<int>();  // the reference counts from zero
  const auto pair = [&](const char* key, int first, int second) {            // the reference says height and top first
    return a.contains(key) ? std::to_string(a[key][first].get<int>()) + "x" + std::to_string(a[key][second].get<int>())
                           : "";
  };
  r.original_size = pair("original_size", 1, 0), r.target_size = pair("target_size", 1, 0);
  r.crop = pair("crops_coords_top_left", 1, 0);
  if (a.contains("strength")) r.strength = a["strength"];
  return r;
}

Workplace workplace(int threads = 2) {
  Workplace w;
  w.ways = cpu::detect(threads);
  return w;
}

// [file, model, picture kinds]
struct Case {
  std::string name;
  std::string model = "diffusers";
  std::string family = "sd15";
  std::string lora = "";
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name << " of " << c.family << "/" << c.model; }

class Golden : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!fs::exists(kSd15)) GTEST_SKIP() << "no golden data at " << kSd15;
  }
};

// A single file with something else in its configuration, and in place of some tensors those of another file.
template <class Alter>
fs::path rewritten(const fs::path& single, const fs::path& other, Alter alter) {
  const fs::path path = fs::temp_directory_path() / ("danqing-rewritten-" + std::to_string(getpid()) + ".safetensors");
  const Checkpoint base = Checkpoint::open(single), replacing = Checkpoint::open(other);
  json header;
  std::string data;
  for (const TensorInfo& t : base.tensors()) {
    const bool replaced = replacing.find(t.name);
    const TensorInfo& from = replaced ? *replacing.find(t.name) : t;
    std::string raw(from.bytes, '\0');
    (replaced ? replacing : base).read(from, std::as_writable_bytes(std::span(raw)));
    static const std::map<DType, std::string> kNames{{DType::f16, "F16"}, {DType::f32, "F32"}, {DType::i64, "I64"}};
    header[t.name] = {{"dtype", kNames.at(from.dtype)},
                      {"shape", json::array()},
                      {"data_offsets", {data.size(), data.size() + raw.size()}}};
    for (int64_t d : from.shape) header[t.name]["shape"].push_back(d);
    data += raw;
  }
  json config = json::parse(base.metadata().at("danqing.config"));
  alter(config);
  header["__metadata__"] = {{"danqing.config", config.dump()}};
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), 8) << text << data;
  return path;
}

TEST_P(Golden, LatentsAndPictureMatch) {
  const Case& which = GetParam();
  const fs::path root = kGolden / which.family;
  const json c = read_case(root / "cases" / (which.name + ".json"));
  const Checkpoint expected = Checkpoint::open(root / "cases" / (which.name + ".safetensors"));
  Request request = request_of(c["run"]);
  request.model = (root / which.model).string();
  fs::path own;
  if (which.name.starts_with("img2img")) request.init = (kSd15 / "cases" / "img2img_input.png").string();
  if (which.name.starts_with("inpaint")) {
    request.init = (kSd15 / "cases" / "inpaint_input.png").string();
    request.mask = (kSd15 / "cases" / "inpaint_mask.png").string();
  }
  if (!which.lora.empty()) request.lora = {(root / which.lora).string() + ":0.7"};
  if (which.name == "inpaint9")  // the single file with another first convolution
    request.model = own = rewritten(root / "single.safetensors", root / "inpaint9_conv_in.safetensors",
                                    [](json& config) { config["unet"]["in_channels"] = 9; });
  if (c["run"]["scheduler"]["config"].value("timestep_spacing", "") ==
      "trailing") {  // no flag says that: the model's does
    json scheduler = c["run"]["scheduler"]["config"];
    scheduler["_class_name"] = c["run"]["scheduler"]["class"];
    request.model = own = rewritten(root / "single.safetensors", root / "single.safetensors",
                                    [&](json& config) { config["scheduler"] = scheduler; });
    request.sampler.reset(), request.schedule.reset();
  }
  const Prepared prepared = prepare(request, workplace(), find_places());
  ASSERT_TRUE(prepared.job && !prepared.shortfall);
  const auto device = cpu::make_device(workplace().ways);

  const std::vector<float> steps = tensor(expected, "latents_steps");
  size_t at = 0;
  double worst = 0;
  PaintHooks hooks;
  hooks.after_step = [&](int, std::span<const float> latents) {
    ASSERT_LE(at + latents.size(), steps.size());
    for (float v : latents) worst = std::max<double>(worst, std::fabs(v - steps[at++]));
  };
  const Painting painting = paint(*prepared.job, *device, hooks);
  EXPECT_EQ(at, steps.size()) << "another number of steps";
  EXPECT_LE(worst, tolerance(c, "latents_steps"));

  const json& files = c["run"]["png"];
  ASSERT_EQ(painting.images.size(), files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const Image reference = read_image((root / "cases" / files[i].get<std::string>()).string());
    ASSERT_EQ(reference.width, painting.images[i].width);
    ASSERT_EQ(reference.height, painting.images[i].height);
    size_t differ = 0;
    for (size_t p = 0; p < reference.rgb.size(); ++p) {
      const int distance = std::abs(reference.rgb[p] - painting.images[i].rgb[p]);
      ASSERT_LE(distance, 1) << "at value " << p;
      differ += distance != 0;
    }
    EXPECT_LE(static_cast<double>(differ), 0.01 * static_cast<double>(reference.rgb.size()));
  }
  EXPECT_EQ(painting.trace.allocated_peak.value, prepared.job->plan.peak.value);
  EXPECT_EQ(device->allocated().value, 0);
  if (!own.empty()) fs::remove(own);
}

INSTANTIATE_TEST_SUITE_P(Sd15, Golden,
                         ::testing::Values(Case{"square_pndm"}, Case{"square_pndm", "single.safetensors"},
                                           Case{"portrait_euler"}, Case{"portrait_euler", "single.safetensors"},
                                           Case{"odd_ddim"}, Case{"batch2_dpmpp"}, Case{"noguidance_euler_a"},
                                           Case{"clipskip_long"}, Case{"img2img_0.3"}, Case{"img2img_0.75"},
                                           Case{"img2img_1"}, Case{"inpaint4_0.6"}, Case{"inpaint4_1"},
                                           Case{"inpaint9"},
                                           Case{"lora", "single.safetensors", "sd15", "lora_kohya.safetensors"},
                                           Case{"lora", "diffusers", "sd15", "lora_peft.safetensors"}));

INSTANTIATE_TEST_SUITE_P(
    Sdxl, Golden,
    ::testing::Values(Case{"square_euler", "diffusers", "sdxl"}, Case{"square_euler", "single.safetensors", "sdxl"},
                      Case{"landscape_dpmpp", "diffusers", "sdxl"},
                      Case{"landscape_dpmpp", "single.safetensors", "sdxl"}, Case{"odd_crop", "diffusers", "sdxl"},
                      Case{"odd_crop", "single.safetensors", "sdxl"}, Case{"batch2_euler_a", "diffusers", "sdxl"},
                      Case{"batch2_euler_a", "single.safetensors", "sdxl"},
                      Case{"noguidance", "single.safetensors", "sdxl"},
                      Case{"lora", "diffusers", "sdxl", "lora_kohya.safetensors"},
                      Case{"lora", "single.safetensors", "sdxl", "lora_peft.safetensors"}));

}  // namespace
}  // namespace danqing
