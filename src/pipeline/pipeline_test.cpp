// What must hold for every request: exact memory, same bytes, limits, stops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "pipeline/fit.h"
#include "pipeline/metadata.h"
#include "pipeline/paint.h"
#include "pipeline/tiles.h"
#include "run/cpu/device.h"

namespace danqing {
namespace {

namespace fs = std::filesystem;
const fs::path kSd15 = fs::path(DANQING_GOLDEN) / "pipeline" / "sd15";

Workplace workplace(int threads = 2) {
  Workplace w;
  w.ways = cpu::detect(threads);
  return w;
}

Request small(const std::string& prompt = "a red fox") {
  Request r;
  r.model = (kSd15 / "single.safetensors").string();
  r.prompt = {prompt};
  r.width = r.height = 64;
  r.steps = 2;
  r.seed = 7;
  r.precision = "f32";
  return r;
}

Job ready(const Request& r, const Workplace& w = workplace()) {
  Prepared p = prepare(r, w, find_places());
  EXPECT_FALSE(p.shortfall.has_value());
  return std::move(*p.job);
}

Painting painted(const Request& r, int threads = 2) {
  const Workplace w = workplace(threads);
  const Job job = ready(r, w);
  const auto device = cpu::make_device(w.ways);
  return paint(job, *device);
}

int farthest(const Image& a, const Image& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  int most = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

class Pipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kSd15)) GTEST_SKIP() << "no golden data at " << kSd15;
  }
};

TEST_F(Pipeline, AllocatesToTheByteWhatWasPlanned) {
  std::mt19937 random(11);
  const auto pick = [&](auto... options) {
    const std::common_type_t<decltype(options)...> all[] = {options...};
    return all[random() % sizeof...(options)];
  };
  for (int round = 0; round < 24; ++round) {
    Request r = small();
    r.width = pick(8, 16, 64, 72, 136), r.height = pick(8, 24, 64, 104);
    r.steps = pick(1, 2, 3), r.cfg = pick(1.0, 5.0);
    r.batch = pick(1, 1, 2), r.count = pick(1, 1, 2);
    r.guidance = pick(std::string("auto"), std::string("in_turn"));
    r.vae_tile = pick(std::string("auto"), std::string("64"), std::string("off"));
    r.precision = pick(std::string("f32"), std::string("f16"), std::string("bf16"));
    r.sampler = pick(std::string("euler"), std::string("heun"), std::string("dpmpp_sde"), std::string("unipc"));
    r.like = pick(std::string("a1111"), std::string("comfyui"), std::string("diffusers"));
    r.clip_skip = pick(1, 2);
    r.prompt = {pick(std::string("a"), std::string("a (red:1.3) fox"), std::string(500, 'x') + " fox",
                     std::string("a BREAK b"))};
    if (pick(0, 1)) r.init = (kSd15 / "cases" / "img2img_input.png").string(), r.strength = pick(0.3, 1.0);
    if (!r.init.empty() && pick(0, 1)) r.mask = (kSd15 / "cases" / "inpaint_mask.png").string();
    const Workplace w = workplace();
    const Job job = ready(r, w);
    const auto device = cpu::make_device(w.ways);
    const Painting painting = paint(job, *device);
    EXPECT_EQ(painting.trace.allocated_peak.value, job.plan.peak.value) << to_json(r).dump();
    EXPECT_EQ(device->allocated().value, 0);
    EXPECT_EQ(static_cast<int>(painting.images.size()), r.batch * r.count);
    for (size_t i = 0; i < job.program.phases.size(); ++i)
      EXPECT_EQ(painting.trace.phases[i].times, job.program.phases[i].times)
          << job.program.phases[i].name << to_json(r).dump();
  }
}

TEST_F(Pipeline, SameRequestSameBytesOnAnyThreads) {
  Request r = small();
  r.width = 72, r.height = 104;
  const Image one = painted(r, 1).images.at(0), again = painted(r, 1).images.at(0), two = painted(r, 2).images.at(0),
              three = painted(r, 3).images.at(0);
  EXPECT_EQ(one.rgb, again.rgb);
  EXPECT_LE(farthest(one, two), 1);
  EXPECT_LE(farthest(one, three), 1);
}

TEST_F(Pipeline, NeighboursDoNotChangeAPicture) {
  Request r = small();
  r.sampler = "euler_a";
  r.batch = 3;
  const Painting batch = painted(r);
  r.batch = 1, r.count = 3;
  const Painting counted = painted(r);
  for (uint64_t i = 0; i < 3; ++i) {
    r.count = 1, r.seed = 7 + i;
    const Image alone = painted(r).images.at(0);
    EXPECT_LE(farthest(alone, batch.images.at(i)), 1) << i;
    EXPECT_EQ(alone.rgb, counted.images.at(i).rgb) << i;
  }
}

TEST_F(Pipeline, GuidanceInTurnAndTilesPaintTheSame) {
  Request r = small();
  r.width = 128, r.height = 96;
  const Image whole = painted(r).images.at(0);
  r.guidance = "in_turn";
  EXPECT_LE(farthest(whole, painted(r).images.at(0)), 1);
  r.cfg = 1.0;
  EXPECT_EQ(ready(r).canvas.guided, false);
}

TEST_F(Pipeline, FitsIntoLessMemoryBySavingAndSaysWhenItCannot) {
  Request r = small();
  r.width = r.height = 256;
  const Job free = ready(r);
  Workplace tight = workplace();
  tight.limit = Bytes(free.plan.peak.value - 1);
  const Prepared saved = prepare(r, tight, find_places());
  ASSERT_TRUE(saved.job && !saved.shortfall);
  EXPECT_FALSE(saved.job->choice == free.choice);
  EXPECT_LE(saved.job->plan.peak, tight.limit);
  const auto device = cpu::make_device(tight.ways);
  device->set_limit(tight.limit);
  EXPECT_EQ(paint(*saved.job, *device).trace.allocated_peak.value, saved.job->plan.peak.value);
  tight.limit = Bytes(1 * kMiB);
  const Prepared none = prepare(r, tight, find_places());
  ASSERT_TRUE(none.shortfall);
  EXPECT_GT(none.shortfall->needed, none.shortfall->limit);
}

TEST_F(Pipeline, StopsWithinAStepAndFreesAll) {
  std::atomic<bool> stop{false};
  Request r = small();
  r.steps = 20;
  const Workplace w = workplace();
  const Job job = ready(r, w);
  const auto device = cpu::make_device(w.ways);
  int steps = 0;
  PaintHooks hooks;
  hooks.cancel = &stop;
  hooks.after_step = [&](int, std::span<const float>) { stop = ++steps == 3; };
  try {
    paint(job, *device, hooks);
    FAIL() << "was not stopped";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::cancelled);
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(device->allocated().value, 0);
}

// The golden file with one weight turned into a NaN.
TEST_F(Pipeline, ANotANumberStopsWithItsPhaseAndStep) {
  const fs::path path = fs::temp_directory_path() / ("danqing-nan-" + std::to_string(getpid()) + ".safetensors");
  for (auto [key, phase] : {std::pair{"model.diffusion_model.out.2.bias", "denoise"},
                            {"first_stage_model.decoder.conv_out.bias", "decode"},
                            {"cond_stage_model.transformer.text_model.final_layer_norm.bias", "encode"}}) {
    fs::copy_file(kSd15 / "single.safetensors", path, fs::copy_options::overwrite_existing);
    fs::permissions(path, fs::perms::owner_all);
    const Checkpoint checkpoint = Checkpoint::open(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(checkpoint.find(key)->offset));
    const uint16_t nan = 0x7e00;
    file.write(reinterpret_cast<const char*>(&nan), 2);
    file.close();
    Request r = small();
    r.model = path.string();
    try {
      painted(r);
      ADD_FAILURE() << key;
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::numeric);
      EXPECT_TRUE(std::string(e.what()).starts_with(phase)) << e.what();
    }
  }
  fs::remove(path);
}

TEST_F(Pipeline, RefusesWhatCannotBePainted) {
  const auto says = [&](auto&& change, const std::string& word) {
    Request r = small();
    change(r);
    try {
      prepare(r, workplace(), find_places());
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  says([](Request& r) { r.width = 100; }, "96 and 104");
  says([](Request& r) { r.height = 0; }, "--height");
  says([](Request& r) { r.steps = 0; }, "--steps");
  says([](Request& r) { r.cfg = std::nan(""); }, "--cfg");
  says([](Request& r) { r.sampler = "magic"; }, "euler");
  says([](Request& r) { r.schedule = "magic"; }, "karras");
  says([](Request& r) { r.like = "magic"; }, "comfyui");
  says([](Request& r) { r.precision = "f8"; }, "bf16");
  says([](Request& r) { r.rng = "dice"; }, "philox");
  says([](Request& r) { r.clip_skip = 4; }, "--clip-skip");
  says([](Request& r) { r.strength = 1.1; }, "--strength");
  says([](Request& r) { r.mask = "x.png"; }, "--init");
  says([](Request& r) { r.vae_tile = "3"; }, "--vae-tile");
  says([](Request& r) { r.init = "/nowhere.png"; }, "/nowhere.png");
  says([](Request& r) { r.prompt = {"a", "b"}, r.batch = 3; }, "--batch");
}

TEST_F(Pipeline, LoraThatFitsNothingIsRefusedAndWeightZeroChangesNothing) {
  Request r = small();
  const Image plain = painted(r).images.at(0);
  r.lora = {(kSd15 / "lora_kohya.safetensors").string() + ":0"};
  EXPECT_EQ(painted(r).images.at(0).rgb, plain.rgb);
  r.lora = {(kSd15 / "lora_kohya.safetensors").string()};
  const Job job = ready(r);
  EXPECT_NE(job.notes.front().find(" parts applied"), std::string::npos) << job.notes.front();
  EXPECT_GT(farthest(painted(r).images.at(0), plain), 3);
  EXPECT_EQ(painted(small()).images.at(0).rgb, plain.rgb);  // nothing stays behind
  for (const auto& [file, word] : {std::pair{kSd15.parent_path() / "zimage" / "lora_kohya.safetensors", "none of its"},
                                   {kSd15 / "single.safetensors", "LoRA"},
                                   {fs::path("/nowhere"), "/nowhere"}}) {
    r.lora = {file.string()};
    try {
      prepare(r, workplace(), find_places());
      ADD_FAILURE() << file;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  }
}

TEST_F(Pipeline, APictureCarriesTheRequestThatPaintsItAgain) {
  Request r = small("a \"red\" fox\nNegative prompt: 水墨画");
  r.batch = 2, r.sampler = "Euler a", r.negative = {"blurry, lowres"};
  const Job job = ready(r);
  const Painting painting = painted(r);
  const fs::path folder = fs::temp_directory_path() / ("danqing-again-" + std::to_string(getpid()));
  fs::create_directory(folder);
  for (const char* ending : {"png", "jpg", "webp"}) {
    const std::string path = (folder / "x.").string() + ending;
    write_image(path, painting.images[1], metadata_of(job, 1));
    const Request again = request_of_picture(path);
    EXPECT_EQ(again.prompt, r.prompt);
    EXPECT_EQ(*again.seed, 8u);
    EXPECT_EQ(again.batch, 1);
  }
  EXPECT_LE(farthest(painted(request_of_picture((folder / "x.png").string())).images.at(0), painting.images[1]), 1);
  fs::remove_all(folder);
}

TEST(Tiles, AgreeingTilesGiveNoSeam) {
  for (auto [h, w, tile] : {std::tuple<int64_t, int64_t, int64_t>{17, 30, 8}, {8, 8, 8}, {40, 9, 16}, {33, 33, 12}}) {
    const int64_t f = 2;
    const TileGrid grid(h, w, tile, f);
    std::vector<float> latent(static_cast<size_t>(h * w)),
        cut(static_cast<size_t>(grid.tile_height() * grid.tile_width()));
    for (size_t i = 0; i < latent.size(); ++i) latent[i] = static_cast<float>(i);
    std::vector<float> sums(static_cast<size_t>(4 * h * w * f * f)), part(cut.size() * f * f * 3);
    for (int64_t t = 0; t < grid.count(); ++t) {
      grid.cut(t, latent, 1, cut);
      const int64_t pw = grid.tile_width() * f;  // decode by doubling: tiles agree exactly where they overlap
      for (int64_t y = 0; y < grid.tile_height() * f; ++y)
        for (int64_t x = 0; x < pw; ++x)
          for (int64_t c = 0; c < 3; ++c)
            part[static_cast<size_t>((y * pw + x) * 3 + c)] =
                cut[static_cast<size_t>(y / f * grid.tile_width() + x / f)];
      grid.blend(t, part, sums);
    }
    grid.normalise(sums);
    for (int64_t y = 0; y < h * f; ++y)
      for (int64_t x = 0; x < w * f; ++x)
        ASSERT_NEAR(sums[static_cast<size_t>((y * w * f + x) * 3)], latent[static_cast<size_t>(y / f * w + x / f)],
                    1e-3)
            << y << " " << x;
  }
}

TEST(Request, GoesThroughJsonAndBack) {
  Request r;
  r.prompt = {"a", "b"}, r.width = 512, r.cfg = 1.5, r.seed = 18446744073709551615u, r.sampler = "euler";
  EXPECT_EQ(request_from_json(to_json(r), "test"), r);
  EXPECT_TRUE(to_json(Request{}).empty());
  EXPECT_THROW(request_from_json({{"promt", "x"}}, "test"), Error);
  EXPECT_THROW(request_from_json({{"steps", "many"}}, "test"), Error);
  EXPECT_THROW(request_from_json({{"steps", 1.5}}, "test"), Error);
  EXPECT_THROW(request_from_json({{"seed", -1}}, "test"), Error);
}

}  // namespace
}  // namespace danqing
