// The parts of Z-Image against reference tensors, in f32, through plan and run on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "graph/fuse.h"
#include "model/diffusers_names.h"
#include "model/qwen.h"
#include "model/vae.h"
#include "model/zimage.h"
#include "plan/plan.h"
#include "run/cpu/device.h"
#include "run/run.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"

namespace danqing {
namespace {

using Floats = std::vector<float>;

// One module's reference: its weights, and cases of inputs and results with their tolerances.
class Reference {
 public:
  explicit Reference(const std::string& name)
      : weights(Checkpoint::open(folder() / (name + ".weights.safetensors"))),
        tensors(Checkpoint::open(folder() / (name + ".safetensors"))) {
    std::ifstream file(folder() / (name + ".json"));
    json_ = nlohmann::json::parse(file);
  }
  static std::filesystem::path folder() { return std::filesystem::path(DANQING_GOLDEN) / "module"; }

  const Shape& shape(const std::string& name) const { return tensors.find(name)->shape; }
  Floats values(const std::string& name) const {
    const TensorInfo* t = tensors.find(name);
    if (!t) throw std::runtime_error("no tensor " + name);
    Floats out(static_cast<size_t>(t->shape.count()));
    tensors.read(*t, std::as_writable_bytes(std::span(out)));
    return out;
  }
  double tolerance(const std::string& name) const {  // "case0/out/sample"
    const size_t slash = name.find('/');
    for (const auto& c : json_["cases"])
      if (c["case"] == name.substr(0, slash)) {
        const auto& t = c["f32_vs_f64"][name.substr(slash + 1)];
        return std::max(8 * t["max_abs"].get<double>(), 1e-5 * t["max_abs_value"].get<double>());
      }
    throw std::runtime_error("no case for " + name);
  }

  Checkpoint weights, tensors;

 private:
  nlohmann::json json_;
};

// Rows of one tensor that must equal rows of another.
struct Piece {
  int64_t mine, theirs, count;
};
void expect_rows(const Reference& r, const std::string& name, const Floats& mine, const std::vector<Piece>& pieces) {
  const Floats theirs = r.values(name);
  const int64_t width = r.shape(name).back();
  double worst = 0;
  for (const Piece& p : pieces)
    for (int64_t i = 0; i < p.count * width; ++i)
      worst = std::max<double>(worst, std::fabs(mine.at(static_cast<size_t>(p.mine * width + i)) -
                                                theirs.at(static_cast<size_t>(p.theirs * width + i))));
  EXPECT_LE(worst, r.tolerance(name)) << name;
}
void expect_all(const Reference& r, const std::string& name, const Floats& mine) {
  ASSERT_EQ(std::ssize(mine), r.shape(name).count()) << name;
  expect_rows(r, name, mine, {{0, 0, r.shape(name).rows()}});
}

Floats to_channels_last(const Floats& x, int64_t n, int64_t c, int64_t pixels) {
  Floats out(x.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k)
      for (int64_t p = 0; p < pixels; ++p)
        out[static_cast<size_t>((i * pixels + p) * c + k)] = x[static_cast<size_t>((i * c + k) * pixels + p)];
  return out;
}
Floats to_channels_first(const Floats& x, int64_t n, int64_t c, int64_t pixels) {
  return to_channels_last(x, n, pixels, c);
}

// Makes the last node that was built under `scope` an output of that name.
void watch(Graph& graph, const std::string& scope) {
  for (int i = graph.size(); i-- > 0;)
    if (const Node& node = graph.nodes[static_cast<size_t>(i)];
        node.name == scope && !std::holds_alternative<Weight>(node.op))
      return graph.outputs.push_back({i});
  throw std::runtime_error("nothing was built under " + scope);
}

// Parameters by the reference's names, all of them in one file and one component.
struct Part {
  std::string key;
  int64_t begin = 0;
};
using Names = std::function<Part(const WeightPart&)>;
WeightSource source(const Checkpoint& weights, Names names) {
  return [&weights, names](const Weight& weight, const TensorType& type, std::span<std::byte> out, auto) {
    const Part part = names(weight.parts.front());
    const TensorInfo* t = weights.find(part.key);
    if (!t) throw std::runtime_error("no weight " + part.key);
    const int64_t rows = t->shape[0], row = static_cast<int64_t>(t->bytes) / rows;
    const int64_t count = type.shape.count() / (t->shape.count() / rows);
    std::vector<std::byte> raw(static_cast<size_t>(count * row));
    weights.read_rows(*t, part.begin, count, raw);
    convert(t->dtype, raw, type.dtype, out, type.shape.count());
  };
}

// Runs phases in order and holds what the host reads of them.
class Bench {
 public:
  Bench(Program program, WeightSource weights) : program_(std::move(program)) {
    for (Phase& phase : program_.phases) phase.graph = fuse(phase.graph), verify(phase.graph);
    plan_ = plan({program_, *cpu::make_backend(ways_), Machine{}, {}});
    device_ = cpu::make_device(ways_);
    run_ = std::make_unique<Run>(*device_, program_, plan_, std::move(weights));
  }
  void begin(const std::string& phase) { run_->begin(phase); }
  template <class T>
  void write(const std::string& name, const std::vector<T>& values) {
    run_->write(name, std::as_bytes(std::span(values)));
  }
  void execute(int64_t step = 0, int64_t half = 0) {
    Counters counters;
    counters[Counter::step] = step, counters[Counter::half] = half;
    run_->execute(counters);
  }
  Floats read(const std::string& phase, const std::string& name) {
    const Graph& graph = program_.phase(phase).graph;
    for (Value v : graph.outputs)
      if (graph[v].name == name) {
        Floats out(static_cast<size_t>(graph[v].type.shape.count()));
        run_->read(name, std::as_writable_bytes(std::span(out)));
        return out;
      }
    throw std::runtime_error("no output " + name);
  }
  void end() { run_->end(); }
  void expect_exact_memory() const { EXPECT_EQ(device_->allocated_peak(), plan_.peak); }

 private:
  cpu::Ways ways_ = cpu::detect(1);
  Program program_;
  Plan plan_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Run> run_;
};

// From the original's names to those of the diffusers folder, where q, k and v stand apart.
Names zimage_names(int64_t width) {
  return [width](const WeightPart& p) -> Part {
    std::string name = p.name.substr(p.name.find('.') + 1);
    const auto change = [&](const std::string& from, const std::string& to) {
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    };
    static const std::string kApart[] = {"to_q", "to_k", "to_v"};
    change("attention.qkv", "attention." + kApart[static_cast<size_t>(p.begin / width) % 3]);
    change("attention.out", "attention.to_out.0"), change("q_norm", "norm_q"), change("k_norm", "norm_k");
    change("final_layer.", "all_final_layer.2-1.");
    if (name.starts_with("x_embedder.")) name = "all_x_embedder.2-1." + name.substr(11);
    return {name};
  };
}

ZImageConfig tiny_zimage() {
  ZImageConfig c;
  c.width = 64, c.context = 48, c.hidden = 170, c.embedding = 64;
  c.layers = 3, c.heads = c.kv_heads = 2, c.axes = {8, 12, 12};
  return c;
}

class ZImageGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Reference::folder())) GTEST_SKIP() << "no golden data at " << Reference::folder();
  }
};

struct ZImageCase {
  std::string name;
  std::vector<int64_t> captions;
};
ZImageBatch batch_of(const Reference& r, const ZImageCase& c) {
  const Shape& x = r.shape(c.name + "/in/x");
  ZImageBatch batch;
  batch.height = x[3], batch.width = x[4], batch.images = batch.times = x[0], batch.steps = 1,
  batch.captions = c.captions;
  return batch;
}
Floats captions_of(const Reference& r, const ZImageCase& c) {
  Floats all;
  for (size_t i = 0; i < c.captions.size(); ++i) {
    const Floats one = r.values(c.name + "/in/cap_" + std::to_string(i));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}
Floats times_of(const Reference& r, const ZImageCase& c) {
  Floats times = r.values(c.name + "/in/t");
  for (float& t : times) t *= 1000;
  return times;
}
Floats noisy_of(const Reference& r, const ZImageCase& c) {
  const Shape& x = r.shape(c.name + "/in/x");
  return to_channels_last(r.values(c.name + "/in/x"), x[0], x[1], x[3] * x[4]);
}
Floats sample_of(const Floats& prediction, const Shape& x) {
  Floats out = to_channels_first(prediction, x[0], x[1], x[3] * x[4]);
  for (float& v : out) v = -v;  // the graph gives the velocity
  return out;
}

Program program_of(ZImageGraphs graphs, int64_t times) {
  Program program;
  program.phases.push_back({"prepare", "z", 1, std::move(graphs.once)});
  program.phases.push_back({"denoise", "z", times, std::move(graphs.each)});
  return program;
}

void check_zimage(const Reference& r, const ZImageCase& c) {
  SCOPED_TRACE(c.name);
  const ZImageConfig config = tiny_zimage();
  const ZImageBatch batch = batch_of(r, c);
  ZImageGraphs graphs = zimage(config, batch, {}, "z");
  const std::vector<std::string> once{"t_embedder.mlp.2", "cap_embedder.1", "context_refiner.0",
                                      "layers.0.adaLN_modulation.0"};
  const std::vector<std::string> each{
      "x_embedder", "noise_refiner.0",        "noise_refiner.1",          "layers.0",          "layers.1",
      "layers.2",   "layers.0.attention.out", "layers.0.feed_forward.w2", "final_layer.linear"};
  for (const std::string& scope : once) watch(graphs.once, "z." + scope);
  for (const std::string& scope : each) watch(graphs.each, "z." + scope);
  Bench bench(program_of(std::move(graphs), 1), source(r.weights, zimage_names(config.width)));
  std::map<std::string, Floats> got;
  bench.begin("prepare");
  bench.write("timesteps", times_of(r, c)), bench.write("captions", captions_of(r, c));
  bench.write("rope", zimage_rope(config, batch));
  bench.execute();
  for (const std::string& scope : once) got[scope] = bench.read("prepare", "z." + scope);
  bench.end();
  bench.begin("denoise");
  bench.write("noisy", noisy_of(r, c));
  const std::vector<int32_t> lengths = zimage_lengths(config, batch);
  if (!lengths.empty()) bench.write("lengths", lengths);
  bench.execute();
  for (const std::string& scope : each) got[scope] = bench.read("denoise", "z." + scope);
  expect_all(r, c.name + "/out/sample", sample_of(bench.read("denoise", "prediction"), r.shape(c.name + "/in/x")));
  bench.end();
  bench.expect_exact_memory();

  const auto rounded = [](int64_t n) { return (n + 31) / 32 * 32; };
  const int64_t picture = batch.height * batch.width / 4, padded = rounded(picture);
  const int64_t longest = rounded(std::ranges::max(c.captions));
  std::vector<Piece> sequence, picture_rows, refined, embedded, pictures_of_all;
  int64_t real = 0, whole = 0;
  for (size_t i = 0; i < c.captions.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    sequence.push_back({n * (padded + longest), n * (padded + longest), padded + rounded(c.captions[i])});
    picture_rows.push_back({n * picture, n * padded, picture});
    pictures_of_all.push_back({n * picture, n * (padded + longest), picture});
    refined.push_back({whole, n * longest, rounded(c.captions[i])});
    embedded.push_back({real, whole, c.captions[i]});
    real += c.captions[i], whole += rounded(c.captions[i]);
  }
  const auto check = [&](const std::string& theirs, const std::string& mine, const std::vector<Piece>& pieces) {
    if (r.tensors.find(c.name + "/block/" + theirs)) expect_rows(r, c.name + "/block/" + theirs, got.at(mine), pieces);
  };
  expect_all(r, c.name + "/block/t_embedder", got.at("t_embedder.mlp.2"));
  check("cap_embedder", "cap_embedder.1", embedded);
  check("all_x_embedder.2-1", "x_embedder", picture_rows);
  check("all_final_layer.2-1", "final_layer.linear", pictures_of_all);
  check("layers.0.adaLN_modulation", "layers.0.adaLN_modulation.0", {{0, 0, batch.images}});
  check("context_refiner.0", "context_refiner.0", refined);
  for (const char* block : {"noise_refiner.0", "noise_refiner.1"}) check(block, block, {{0, 0, batch.images * padded}});
  for (const char* layer : {"layers.0", "layers.1", "layers.2"}) check(layer, layer, sequence);
  check("layers.0.attention", "layers.0.attention.out", sequence);
  check("layers.0.feed_forward", "layers.0.feed_forward.w2", sequence);
}

const std::vector<ZImageCase> kZImageCases{{"case0", {7}}, {"case1", {33, 12}}, {"case2", {64}}};

TEST_F(ZImageGolden, Transformer) {
  const Reference r("zimage");
  for (const ZImageCase& c : kZImageCases) check_zimage(r, c);
}

// Two pictures of different captions one after another, as guidance in turn does: each alone gives what both together
// do.
TEST_F(ZImageGolden, TransformerInTurn) {
  const Reference r("zimage");
  const ZImageCase& c = kZImageCases[1];
  const ZImageConfig config = tiny_zimage();
  ZImageBatch batch = batch_of(r, c);
  batch.images = batch.times = 1, batch.halves = batch.steps = 2;
  Bench bench(program_of(zimage(config, batch, {}, "z"), 2), source(r.weights, zimage_names(config.width)));
  bench.begin("prepare");
  bench.write("timesteps", times_of(r, c)), bench.write("captions", captions_of(r, c));
  bench.write("rope", zimage_rope(config, batch));
  bench.execute();
  bench.end();
  bench.begin("denoise");
  bench.write("lengths", zimage_lengths(config, batch));
  const Floats noisy = noisy_of(r, c);
  Floats both;
  for (int64_t i : {0, 1}) {
    const auto half = static_cast<std::ptrdiff_t>(noisy.size() / 2);
    bench.write("noisy", Floats(noisy.begin() + i * half, noisy.begin() + (i + 1) * half));
    bench.execute(i, i);
    const Floats one = bench.read("denoise", "prediction");
    both.insert(both.end(), one.begin(), one.end());
  }
  expect_all(r, "case1/out/sample", sample_of(both, r.shape("case1/in/x")));
  bench.end();
  bench.expect_exact_memory();
}

TEST_F(ZImageGolden, TextEncoder) {
  const Reference r("qwen3");
  QwenConfig c;
  c.vocabulary = 512, c.width = 48, c.hidden = 112, c.layers = 4, c.heads = 4, c.kv_heads = 2, c.head_size = 16;
  const std::vector<int64_t> lengths{5, 37};
  const int64_t tokens = 42, row = r.shape("padded/in/input_ids")[1];
  std::vector<int64_t> padded_ids(static_cast<size_t>(2 * row));
  r.tensors.read(*r.tensors.find("padded/in/input_ids"), std::as_writable_bytes(std::span(padded_ids)));
  std::vector<int32_t> ids;
  for (size_t i = 0; i < 2; ++i)
    for (int64_t k = 0; k < lengths[i]; ++k)
      ids.push_back(static_cast<int32_t>(padded_ids[i * static_cast<size_t>(row) + static_cast<size_t>(k)]));

  Program program;
  program.phases.push_back({"encode", "text", 1, {}});
  Graph& graph = program.phases[0].graph;
  const Build b = Build(graph, {})["text"];
  const Value in = b.input("ids", {DType::i32, {1, tokens}});
  const Value rope = b.input("text rope", {DType::f32, {1, tokens, 2 * c.head_size}});
  b.output("captions", qwen_text(b, in, rope, c, lengths));
  const std::vector<std::string> watched{"model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj",
                                         "model.layers.0", "model.layers.1"};
  for (const std::string& scope : watched) watch(graph, "text." + scope);
  Bench bench(std::move(program), source(r.weights, [](const WeightPart& p) { return Part{p.name.substr(5)}; }));
  bench.begin("encode");
  bench.write("ids", ids), bench.write("text rope", qwen_rope(c, lengths));
  bench.execute();
  const Floats captions = bench.read("encode", "captions");
  expect_rows(r, "padded/out/embeds_0", captions, {{0, 0, 5}});
  expect_rows(r, "padded/out/embeds_1", captions, {{5, 0, 37}});
  const auto check = [&](const std::string& theirs, const std::string& mine) {
    const std::string name = "padded/block/" + theirs;
    expect_rows(r, name, bench.read("encode", "text." + mine), {{0, 0, 5}, {5, r.shape(name)[1], 37}});
  };
  check("model.layers.0.self_attn", watched[0]), check("model.layers.0.mlp", watched[1]);
  check("model.layers.0", watched[2]), check("model.layers.1", watched[3]);
  bench.end();
  bench.expect_exact_memory();
}

TEST_F(ZImageGolden, Autoencoder) {
  const Reference r("vae_flux");
  VaeConfig c;
  c.latent_channels = 16, c.channels = {32, 32, 32, 32}, c.quant_conv = false, c.scale = 0.3611, c.shift = 0.1159;
  const auto names = [&](const WeightPart& p) { return Part{diffusers_vae_name(p.name.substr(4), c)}; };
  for (const std::string at : {"case0/", "case1/"}) {
    const Shape picture = r.shape(at + "in/image"), latent = r.shape(at + "in/latents");
    const int64_t pixels = picture[2] * picture[3], places = latent[2] * latent[3];
    Program program;
    program.phases.push_back(
        {"encode", "vae_encoder", 1, vae_encode(c, {picture[0], picture[2], picture[3], 3}, {}, "vae")});
    program.phases.push_back(
        {"decode", "vae_decoder", 1, vae_decode(c, {latent[0], latent[2], latent[3], 16}, {}, "vae")});
    Bench bench(std::move(program), source(r.weights, names));
    bench.begin("encode");
    bench.write("original", to_channels_last(r.values(at + "in/image"), picture[0], 3, pixels));
    bench.execute();
    const Floats moments = to_channels_first(bench.read("encode", "moments"), latent[0], 32, places);
    Floats mean, variance;
    for (int64_t n = 0; n < latent[0]; ++n) {
      const auto begin = moments.begin() + n * 32 * places, middle = begin + 16 * places;
      mean.insert(mean.end(), begin, middle), variance.insert(variance.end(), middle, middle + 16 * places);
    }
    expect_all(r, at + "out/mean", mean);
    for (float& v : variance) v = std::clamp(v, -30.0f, 20.0f);
    expect_all(r, at + "out/logvar", variance);
    bench.end();
    bench.begin("decode");
    bench.write("latent", to_channels_last(r.values(at + "in/latents"), latent[0], 16, places));
    bench.execute();
    expect_all(r, at + "out/image", to_channels_first(bench.read("decode", "picture"), latent[0], 3, pixels));
    bench.end();
    bench.expect_exact_memory();
  }
}

}  // namespace
}  // namespace danqing
