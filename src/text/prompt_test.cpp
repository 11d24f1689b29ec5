#include "text/prompt.h"

#include <cmath>

#include "text/number.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

std::string shown(const std::vector<WeightedText>& pieces) {
  std::string out;
  for (const WeightedText& piece : pieces) {
    char weight[32];
    std::snprintf(weight, sizeof weight, "%.4g", piece.weight);
    out += piece.is_break ? "/" : "{" + piece.text + "|" + weight + "}";
  }
  return out;
}

TEST(Prompt, ParsesEveryGoldenText) {
  DANQING_NEEDS_GOLDEN("tokenizer/a1111_attention.json");
  int compared = 0;
  const auto cases = read_json(golden("tokenizer/a1111_attention.json")).at("cases");
  for (const auto& entry : cases) {
    if (entry.contains("error")) continue;
    const auto pieces = parse_a1111(entry.at("text").get<std::string>());
    SCOPED_TRACE(entry.dump() + " " + shown(pieces));
    ASSERT_EQ(pieces.size(), entry.at("parsed").size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto& wanted = entry.at("parsed")[i];
      EXPECT_EQ(pieces[i].text, wanted[0].get<std::string>());
      EXPECT_EQ(pieces[i].is_break, wanted[0] == "BREAK" && wanted[1].get<double>() < 0);
      if (!pieces[i].is_break) {
        EXPECT_NEAR(pieces[i].weight, wanted[1].get<double>(), 1e-12 * std::abs(wanted[1].get<double>()));
      }
    }
    ++compared;
  }
  EXPECT_EQ(compared, 87);
}

TEST(Prompt, TakesWhatIsNoNumberAsText) {
  EXPECT_EQ(shown(parse_a1111("(a:1.2.3)")), "{a:1.2.3|1.1}");
  EXPECT_EQ(shown(parse_a1111("(a:.)")), "{a:.|1.1}");
  EXPECT_EQ(shown(parse_a1111("(a:inf) (b:nan) (c:1,2)")), "{a:inf|1.1}{ |1}{b:nan|1.1}{ |1}{c:1,2|1.1}");
  EXPECT_EQ(shown(parse_a1111("(a:" + std::string(400, '9') + ")")).substr(0, 5), "{a:99");
  EXPECT_EQ(shown(parse_a1111("(sunny:0.6), landscape")), "{sunny|0.6}{, landscape|1}");
}

TEST(Prompt, SurvivesUnbalancedAndDeepBrackets) {
  EXPECT_EQ(shown(parse_a1111(")(")), "{)|1}");
  EXPECT_EQ(shown(parse_a1111("(a]")), "{a]|1.1}");
  const auto deep = parse_a1111(std::string(500, '(') + "a");
  ASSERT_EQ(deep.size(), 1u);
  EXPECT_EQ(deep[0].text, "a");
  EXPECT_NEAR(deep[0].weight / std::pow(1.1, 500), 1, 1e-9);
  EXPECT_EQ(parse_a1111(std::string(1000000, '(')).size(), 1u);
  std::string many = std::string(512, '(');
  for (int i = 0; i < 200000; ++i) many += "[a]";
  EXPECT_EQ(parse_a1111(many).size(), 1u);
}

TEST(Prompt, BreaksOnlyAtTheWholeWord) {
  EXPECT_EQ(shown(parse_a1111("a\r\nBREAK\r\nb")), "{a|1}/{b|1}");
  EXPECT_EQ(shown(parse_a1111("éBREAK BREAK_ breakfast")), "{éBREAK BREAK_ breakfast|1}");
  EXPECT_EQ(shown(parse_a1111("a\xE3\x80\x80"
                              "BREAK, b")),
            "{a|1}/{, b|1}");
  EXPECT_EQ(shown(parse_a1111("\xFF"
                              "BREAK\xC3")),
            "{\xFF|1}/{\xC3|1}");
}

TEST(Prompt, ReadsComfyuiBrackets) {
  EXPECT_EQ(shown(parse_comfyui("a (b:1.3) [c] (d (e:0.5) f:2)")), "{a |1}{b|1.3}{ [c] |1}{d |2}{e|0.5}{ f|2}");
  EXPECT_EQ(shown(parse_comfyui("((a))")), "{a|1.21}");
  EXPECT_EQ(shown(parse_comfyui("\\(a\\) (b \\(c\\):1.2)")), "{(a) |1}{b (c)|1.2}");
  EXPECT_EQ(shown(parse_comfyui("(a (b)")), "{a |1.1}{(b|1.1}");
  EXPECT_EQ(shown(parse_comfyui(")(a)")), "{)(a)|1}");
  EXPECT_EQ(shown(parse_comfyui("(a:x) (:2)")), "{a:x|1.1}{ |1}{:2|1.1}");
  EXPECT_TRUE(parse_comfyui("").empty());
  EXPECT_EQ(parse_comfyui(std::string(300000, '(') + std::string(300000, ')')).size(), 1u);
}

TEST(Prompt, NumbersAreWholeAndFinite) {
  EXPECT_EQ(parse_number("+1.5"), 1.5);
  EXPECT_EQ(parse_number("5."), 5.0);
  EXPECT_EQ(parse_number("-.5"), -0.5);
  for (const char* text : {"", "+", "+-1", "1,5", "0x10", "inf", "nan", "1 ", " 1", "1e999"})
    EXPECT_FALSE(parse_number(text)) << text;
}

}  // namespace
}  // namespace danqing
