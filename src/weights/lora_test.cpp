#include "weights/lora.h"

#include <cmath>
#include <map>

#include "weights/convert.h"
#include "weights/scratch.h"
#include "weights/writer.h"

namespace danqing {
namespace {

using std::string;
using Floats = std::vector<float>;

struct Tensor {
  string name;
  Shape shape;
  Floats values;
  DType dtype = DType::f32;
};

class LoraFile : public testing::Test {
 protected:
  Lora open(const std::vector<Tensor>& tensors, const MetadataOut& metadata = {}) {
    std::vector<TensorOut> out;
    for (const Tensor& t : tensors) out.push_back({t.name, t.dtype, t.shape});
    write_safetensors(scratch.path() / "x.safetensors", out, metadata, [&](size_t i, std::span<std::byte> bytes) {
      if (tensors[i].dtype == DType::i64) {
        const int64_t whole = static_cast<int64_t>(tensors[i].values[0]);
        std::memcpy(bytes.data(), &whole, 8);
      } else {
        from_f32(tensors[i].values, tensors[i].dtype, bytes);
      }
    });
    return Lora::open(scratch.path() / "x.safetensors");
  }
  string refused(const std::vector<Tensor>& tensors) {
    return refusal([&] { open(tensors); });
  }
  // The only part, added at strength 1 to a weight of zeros.
  Floats delta(const std::vector<Tensor>& tensors, int64_t rows, int64_t columns, const MetadataOut& metadata = {}) {
    const Lora lora = open(tensors, metadata);
    EXPECT_EQ(lora.parts().size(), 1u);
    Floats w(static_cast<size_t>(rows * columns));
    lora.apply(lora.parts()[0], 1, w, rows);
    return w;
  }
  Scratch scratch;
};

const Tensor kUp{"l.lora_up.weight", {2, 1}, {1, 2}}, kDown{"l.lora_down.weight", {1, 3}, {1, 10, 100}};

TEST_F(LoraFile, AddsUpTimesDown) {
  EXPECT_EQ(delta({kUp, kDown}, 2, 3), (Floats{1, 10, 100, 2, 20, 200}));
  const Lora lora = open({kUp, kDown});
  Floats w(6, 1.f);
  lora.apply(lora.parts()[0], -0.5f, w, 2);
  EXPECT_EQ(w, (Floats{0.5f, -4, -49, 0, -9, -99}));
  lora.apply(lora.parts()[0], 0, w, 2);
  EXPECT_EQ(w[1], -4);
  EXPECT_NE(refusal([&] {
              lora.apply(lora.parts()[0], 1, w, 3);
            }).find("\"l\" is made for a weight of 2 x 3, this one is 3 x 2"),
            string::npos);
}

TEST_F(LoraFile, TakesAlphaInEveryForm) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::i64})
    for (const Shape& shape : {Shape{}, Shape{1}})
      EXPECT_EQ(delta({kUp, kDown, {"l.alpha", shape, {4}, t}}, 2, 3)[5], 800) << name(t);
  EXPECT_EQ(delta({kUp, kDown, {"l.alpha", {}, {0}}}, 2, 3)[5], 0);
  EXPECT_EQ(delta({kUp, kDown}, 2, 3, {{"network_alpha", "3"}})[5], 600);
  EXPECT_EQ(delta({kUp, kDown}, 2, 3, {{"lora_adapter_metadata", R"({"unet.r":1,"unet.lora_alpha":5})"}})[5], 1000);
  // What the trainer noted about itself is no statement about a layer.
  EXPECT_EQ(delta({kUp, kDown}, 2, 3, {{"ss_network_alpha", "9"}})[5], 200);
  const Lora both = open({kUp, kDown, {"l.alpha", {}, {4}}}, {{"network_alpha", "3"}});
  EXPECT_EQ(both.parts()[0].scale, 4);
  ASSERT_EQ(both.notes().size(), 1u);
  EXPECT_NE(refused({kUp, kDown, {"l.alpha", {}, {NAN}}}).find("\"l.alpha\" is not a finite number"), string::npos);
  EXPECT_NE(refused({kUp, kDown, {"l.alpha", {2}, {1, 1}}}).find("one number is wanted"), string::npos);
}

TEST_F(LoraFile, KnowsEverySpellingOfUpAndDown) {
  const auto target = [&](const string& up, const string& down) {
    const Lora lora = open({{up, {2, 1}, {1, 2}}, {down, {1, 3}, {1, 10, 100}}});
    EXPECT_TRUE(is_lora(lora.file())) << up;
    return lora.parts().size() == 1 ? lora.parts()[0].target : "";
  };
  EXPECT_EQ(target("lora_unet_mid_to_q.lora_up.weight", "lora_unet_mid_to_q.lora_down.weight"), "lora_unet_mid_to_q");
  EXPECT_EQ(target("unet.a.to_q.lora_B.weight", "unet.a.to_q.lora_A.weight"), "unet.a.to_q");
  EXPECT_EQ(target("base_model.model.a.to_q.lora_B.default.weight", "base_model.model.a.to_q.lora_A.default.weight"),
            "a.to_q");
  EXPECT_EQ(target("unet.x.attn1.processor.to_q_lora.up.weight", "unet.x.attn1.processor.to_q_lora.down.weight"),
            "unet.x.attn1.to_q");
  EXPECT_EQ(target("unet.x.attn1.processor.to_out_lora.up.weight", "unet.x.attn1.processor.to_out_lora.down.weight"),
            "unet.x.attn1.to_out.0");
  EXPECT_EQ(target("text_encoder.q.lora_linear_layer.up.weight", "text_encoder.q.lora_linear_layer.down.weight"),
            "text_encoder.q");
  EXPECT_EQ(target("unet.q.lora.up.weight", "unet.q.lora.down.weight"), "unet.q");
}

TEST_F(LoraFile, ConvolvesWithAndWithoutAMiddle) {
  // 2 outputs, 1 input, kernel 1 x 2
  EXPECT_EQ(delta({{"l.lora_up.weight", {2, 1, 1, 1}, {1, 2}}, {"l.lora_down.weight", {1, 1, 1, 2}, {3, 4}}}, 2, 2),
            (Floats{3, 4, 6, 8}));
  // up [2,2], mid [2,1,1,2], down [1,2]: W[o,i,k] = sum over p of up[o,p] mid[p,0,k] down[0,i]
  EXPECT_EQ(delta({{"l.lora_up.weight", {2, 2, 1, 1}, {1, 2, 3, 4}},
                   {"l.lora_mid.weight", {2, 1, 1, 2}, {1, 10, 100, 1000}},
                   {"l.lora_down.weight", {1, 2, 1, 1}, {1, 5}}},
                  2, 4),
            (Floats{201, 2010, 1005, 10050, 403, 4030, 2015, 20150}));
}

TEST_F(LoraFile, MultipliesTheTwoMapsOfALoHa) {
  const std::vector<Tensor> plain = {{"l.hada_w1_a", {2, 1}, {1, 2}},
                                     {"l.hada_w1_b", {1, 2}, {1, 3}},
                                     {"l.hada_w2_a", {2, 1}, {5, 7}},
                                     {"l.hada_w2_b", {1, 2}, {1, 2}}};
  EXPECT_EQ(delta(plain, 2, 2), (Floats{5, 30, 14, 84}));
  auto scaled = plain;
  scaled.push_back({"l.alpha", {}, {0.5f}});
  EXPECT_EQ(delta(scaled, 2, 2), (Floats{2.5f, 15, 7, 42}));
  // Tucker: t [1,1,1,2], a [1,2] (rank, outputs), b [1,1]
  EXPECT_EQ(delta({{"l.hada_t1", {1, 1, 1, 2}, {1, 2}},
                   {"l.hada_w1_a", {1, 2}, {1, 3}},
                   {"l.hada_w1_b", {1, 1}, {10}},
                   {"l.hada_t2", {1, 1, 1, 2}, {1, 1}},
                   {"l.hada_w2_a", {1, 2}, {1, 2}},
                   {"l.hada_w2_b", {1, 1}, {1}}},
                  2, 2),
            (Floats{10, 20, 60, 120}));
}

TEST_F(LoraFile, TakesTheKroneckerProductOfALoKr) {
  const Tensor w1{"l.lokr_w1", {2, 2}, {1, 2, 3, 4}}, w2{"l.lokr_w2", {1, 2}, {1, 10}};
  const Floats product{1, 10, 2, 20, 3, 30, 4, 40};
  EXPECT_EQ(delta({w1, w2}, 2, 4), product);
  EXPECT_EQ(delta({w1, w2, {"l.alpha", {}, {7}}}, 2, 4), product);  // both whole: no scale
  EXPECT_EQ(delta({w1, {"l.lokr_w2_a", {1, 1}, {1}}, {"l.lokr_w2_b", {1, 2}, {1, 10}}}, 2, 4), product);
  EXPECT_EQ(
      delta({w1, {"l.lokr_w2_a", {1, 2}, {1, 1}}, {"l.lokr_w2_b", {2, 2}, {1, 4, 0, 6}}, {"l.alpha", {}, {1}}}, 2, 4),
      (Floats{.5f, 5, 1, 10, 1.5f, 15, 2, 20}));
  EXPECT_EQ(delta({{"l.lokr_w1_a", {2, 1}, {1, 2}}, {"l.lokr_w1_b", {1, 2}, {1, 3}}, w2}, 2, 4),
            (Floats{1, 10, 3, 30, 2, 20, 6, 60}));
  EXPECT_EQ(delta({{"l.lokr_w1", {1, 1}, {2}},
                   {"l.lokr_t2", {1, 1, 1, 2}, {1, 2}},
                   {"l.lokr_w2_a", {1, 2}, {1, 3}},
                   {"l.lokr_w2_b", {1, 1}, {10}}},
                  2, 2),
            (Floats{20, 40, 60, 120}));
}

TEST_F(LoraFile, AppliesMagnitudesAlongTheRightAxis) {
  const Tensor up{"l.lora_up.weight", {2, 1}, {1, 1}}, down{"l.lora_down.weight", {1, 2}, {1, 1}};
  const auto applied = [&](const Tensor& magnitude, float strength) {
    const Lora lora = open({up, down, magnitude});
    Floats w{2, 3, 4, 11};  // with the delta: 3 4 / 5 12, rows of norm 5 and 13
    lora.apply(lora.parts()[0], strength, w, 2);
    return w;
  };
  const auto expect_near = [](const Floats& a, const Floats& b) {
    for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5f) << i;
  };
  for (const Tensor& m : {Tensor{"l.dora_scale", {2, 1}, {10, 26}}, Tensor{"l.lora_magnitude_vector", {2}, {10, 26}},
                          Tensor{"l.lora_magnitude_vector.default.weight", {1, 2}, {10, 26}}})
    expect_near(applied(m, 1), {6, 8, 10, 24});
  expect_near(applied({"l.dora_scale", {2, 1}, {10, 26}}, 0.5f), {4, 5.5f, 7, 17.5f});
  const float a = std::sqrt(34.f), b = std::sqrt(160.f);
  expect_near(applied({"l.dora_scale", {1, 2}, {a, 2 * b}}, 1), {3, 8, 5, 24});
}

TEST_F(LoraFile, AddsWholeDifferences) {
  const Lora lora = open({{"l.diff", {1, 2}, {1, 2}}, {"l.diff_b", {1}, {5}}});
  Floats w(2), bias(1);
  lora.apply(lora.parts()[0], 2, w, 1);
  EXPECT_TRUE(lora.apply_bias(lora.parts()[0], 2, bias));
  EXPECT_EQ(w, (Floats{2, 4}));
  EXPECT_EQ(bias, (Floats{10}));
}

TEST_F(LoraFile, RefusesWhatIsBroken) {
  EXPECT_NE(refused({{"conv_in.weight", {1}, {1}}}).find("is not a LoRA: none of its 1 tensors"), string::npos);
  EXPECT_NE(refused({kUp}).find("\"l\" lacks one of its factors"), string::npos);
  EXPECT_NE(refused({{"l.alpha", {}, {1}}}).find("factors are missing"), string::npos);
  EXPECT_NE(refused({kUp, {"l.lora_down.weight", {2, 3}, Floats(6)}}).find("do not fit: ranks 1 and 2"), string::npos);
  EXPECT_NE(refused({kUp, {"l.lora_down.weight", {}, {1}}}).find("no matrix"), string::npos);
  EXPECT_NE(refused({kUp, {"l.lora_down.weight", {1, 0}, {}}}).find("empty or absurd"), string::npos);
  EXPECT_NE(refused({kUp, kDown, {"l.lora_A.weight", {1, 3}, Floats(3)}}).find("the same factor"), string::npos);
  EXPECT_NE(refused({kUp, kDown, {"l.dora_scale", {3, 1}, Floats(3)}}).find("has a magnitude of [3,1]"), string::npos);
  EXPECT_NE(refused({kUp, kDown, {"m.oft_blocks", {1}, {1}}}).find("OFT"), string::npos);
  const Lora bad = open({kUp, {"l.lora_down.weight", {1, 3}, {1, NAN, 1}}});
  Floats w(6);
  EXPECT_NE(refusal([&] {
              bad.apply(bad.parts()[0], 1, w, 2);
            }).find("\"l.lora_down.weight\" holds values that are not finite"),
            string::npos);
  const Lora extra = open({kUp, kDown, {"emb", {1}, {1}}});
  EXPECT_EQ(extra.notes().size(), 2u);  // no alpha, and a tensor without a use
}

// The golden files of one model are the same update in several dialects.
void expect_twins(const string& a, const string& b, const std::map<string, string>& prefixes, size_t count) {
  const string folder = DANQING_GOLDEN "/pipeline/";
  if (!std::filesystem::exists(folder + a)) GTEST_SKIP() << folder;
  const Lora one = Lora::open(folder + a), two = Lora::open(folder + b);
  EXPECT_EQ(one.parts().size(), count);
  ASSERT_EQ(two.parts().size(), count);
  std::map<string, const LoraPart*> named;
  for (const LoraPart& p : two.parts()) named[p.flat] = &p;
  for (const LoraPart& p : one.parts()) {
    string flat = p.flat;
    for (const auto& [from, to] : prefixes)
      if (flat.starts_with(from)) flat = to + flat.substr(from.size());
    ASSERT_TRUE(named.contains(flat)) << flat;
    Floats x(static_cast<size_t>(p.rows * p.columns)), y(x.size());
    one.apply(p, 0.7f, x, p.rows);
    two.apply(*named[flat], 0.7f, y, p.rows);
    float most = 0;
    for (float v : x) most = std::max(most, std::abs(v));
    EXPECT_GT(most, 0);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-6f * most) << p.target;
  }
}

TEST_F(LoraFile, DialectsOfOneUpdateAgree) {
  expect_twins("sd15/lora_kohya.safetensors", "sd15/lora_peft.safetensors",
               {{"lora_unet_", "unet_"}, {"lora_te_", "text_encoder_"}}, 47);
}
TEST_F(LoraFile, DialectsOfAZImageUpdateAgree) {
  expect_twins("zimage/lora_kohya.safetensors", "zimage/lora_transformer.safetensors", {{"lora_unet_", "transformer_"}},
               11);
  expect_twins("zimage/lora_diffusion_model.safetensors", "zimage/lora_transformer.safetensors",
               {{"diffusion_model_", "transformer_"}}, 11);
}

}  // namespace
}  // namespace danqing
