#include "text/clip_tokenizer.h"

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

using Ids = std::vector<int32_t>;

const ClipTokenizer& tokenizer() {
  static const ClipTokenizer loaded(tokenizer_data());
  return loaded;
}

Ids with_ends(Ids ids) {
  ids.insert(ids.begin(), kClipStart);
  ids.push_back(kClipEnd);
  return ids;
}

TEST(ClipTokenizer, EqualsEveryGoldenPromptInAllCleanings) {
  DANQING_NEEDS_GOLDEN("tokenizer/clip.json");
  const auto cases = read_json(golden("tokenizer/clip.json")).at("cases");
  ASSERT_EQ(cases.size(), 179u);
  for (const auto& entry : cases) {
    const std::string text = entry.at("text");
    const Ids plain = entry.at("untruncated");
    SCOPED_TRACE(nlohmann::json(text).dump());
    EXPECT_EQ(with_ends(tokenizer().encode(text, ClipCleaning::plain)), plain);
    EXPECT_EQ(with_ends(tokenizer().encode(text, ClipCleaning::ftfy)), entry.value("untruncated_slow_ftfy", plain));
    EXPECT_EQ(with_ends(tokenizer().encode(text, ClipCleaning::openai)), entry.value("untruncated_openai", plain));
  }
}

struct Known {
  const char* text;
  Ids ids;
};

TEST(ClipTokenizer, GivesIdsKnownFromReports) {
  const Known known[] = {
      {"Un petit chaton très mignon", {2271, 21276, 5355, 525, 635, 41210, 714, 20561}},
      {"tre\xCC\x80s", {635, 41210}},
      {"テスト", {2429, 228, 32421, 486}},
      {"⚡️", {11605}},
      {"🇩🇪", {21531}},
      {"नमस्ते", {3124, 101, 48254, 28505, 19389, 27263, 25130}},
      {"3000 dollars", {274, 271, 271, 271, 10669}},
      {"photo_of_a_cat", {1125, 318, 539, 318, 320, 318, 2368}},
      {"A  CAT\n\tsits", {320, 2368, 12726}},
      {"a <|endoftext|> b", {320, 49407, 321}},
      {"", {}},
      {",", {kClipComma}},
  };
  for (const Known& entry : known) {
    for (ClipCleaning cleaning : {ClipCleaning::plain, ClipCleaning::ftfy, ClipCleaning::openai}) {
      EXPECT_EQ(tokenizer().encode(entry.text, cleaning), entry.ids) << entry.text;
    }
  }
}

TEST(ClipTokenizer, AcceptsAWordOfAMegabyteAndRefusesMore) {
  EXPECT_EQ(tokenizer().encode(std::string(1000, 'x')).size(), 250u);
  EXPECT_EQ(tokenizer().encode(std::string(1000000, 'x')).size(), 250000u);
  try {
    tokenizer().encode(std::string(kMaxPromptBytes + 1, 'x'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::request);
    EXPECT_NE(std::string(error.what()).find("1048576"), std::string::npos);
  }
}

TEST(ClipTokenizer, ReadsBrokenUtf8AsReplacementCharacters) {
  const Ids replaced = tokenizer().encode("a \xEF\xBF\xBD b", ClipCleaning::plain);
  EXPECT_EQ(tokenizer().encode("a \xFF b", ClipCleaning::plain), replaced);
  EXPECT_EQ(tokenizer().encode("a \xC3", ClipCleaning::plain),
            tokenizer().encode("a \xEF\xBF\xBD", ClipCleaning::plain));
  const std::string two = "\xEF\xBF\xBD\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer().encode("\xC0\xAF", ClipCleaning::ftfy), tokenizer().encode(two, ClipCleaning::ftfy));
  EXPECT_EQ(tokenizer().encode("\xED\xA0\x80", ClipCleaning::ftfy),
            tokenizer().encode(two + "\xEF\xBF\xBD", ClipCleaning::ftfy));
}

TEST(ClipTokenizer, NamesAMissingVocabulary) {
  try {
    ClipTokenizer("/nowhere");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::file);
    EXPECT_NE(std::string(error.what()).find("/nowhere/clip/merges.txt.gz"), std::string::npos);
  }
}

}  // namespace
}  // namespace danqing
