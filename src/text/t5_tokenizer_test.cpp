#include "text/t5_tokenizer.h"

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

const T5Tokenizer& tokenizer() {
  static const T5Tokenizer loaded(tokenizer_data());
  return loaded;
}

TEST(T5Tokenizer, EqualsEveryGoldenPrompt) {
  DANQING_NEEDS_GOLDEN("tokenizer/t5.json");
  const auto cases = read_json(golden("tokenizer/t5.json")).at("cases");
  ASSERT_EQ(cases.size(), 179u);
  for (const auto& entry : cases) {
    const std::string text = entry.at("text");
    EXPECT_EQ(tokenizer().encode(text), entry.at("ids").get<std::vector<int32_t>>()) << entry.at("text").dump();
  }
}

TEST(T5Tokenizer, BoundsHostileTexts) {
  EXPECT_GT(tokenizer().encode(std::string(300000, 'x')).size(), 1u);
  EXPECT_GT(tokenizer().encode(std::string(300000, '<')).size(), 1u);
  EXPECT_EQ(tokenizer().encode("a \xFF"), tokenizer().encode("a \xEF\xBF\xBD"));
  EXPECT_THROW(tokenizer().encode(std::string((1 << 20) + 1, 'a')), Error);
}

TEST(CharacterMap, RefusesBrokenMaps) {
  EXPECT_THROW(CharacterMap(""), Error);
  EXPECT_THROW(CharacterMap(std::string_view("\x08\0\0\0\0\0\0\0", 8)), Error);  // announces 8 bytes, holds 4
  EXPECT_THROW(CharacterMap(std::string_view("\x03\0\0\0\0\0\0\0", 8)), Error);
  // One unit that points far outside: found nothing, read nothing.
  EXPECT_EQ(CharacterMap(std::string_view("\x04\0\0\0\xFF\xFF\xFF\x7F", 8)).apply("abc"), "abc");
}

}  // namespace
}  // namespace danqing
