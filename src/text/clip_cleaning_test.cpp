#include "text/clip_cleaning.h"

#include "text/text_golden_test.h"
#include "text/utf8.h"

namespace danqing {
namespace {

const HtmlEntities& entities() {
  static const HtmlEntities loaded(tokenizer_data() / "html_entities.txt.gz");
  return loaded;
}

std::string repaired(const std::string& text) { return clean_clip_text(text, ClipCleaning::ftfy, entities()); }
std::string openai(const std::string& text) { return clean_clip_text(text, ClipCleaning::openai, entities()); }

TEST(ClipCleaning, RepairsMojibake) {
  EXPECT_EQ(repaired("cafÃ©"), "café");
  EXPECT_EQ(repaired("猫 cafÃ© 犬"), "猫 café 犬");
  EXPECT_EQ(repaired("cafÃƒÂ©"), "café");  // twice
  EXPECT_EQ(repaired("Ð¿Ñ€Ð¸Ð²ÐµÑ‚"), "привет");
  EXPECT_EQ(repaired("itâ€™s"), "it's");
  EXPECT_EQ(repaired("ðŸ˜€"), "😀");
}

TEST(ClipCleaning, LeavesRealTextAlone) {
  for (const char* text :
       {"“café”", "l’été à l’œuvre", "naïve façade…", "«café»", "ñandú", "größe—maß", "crème brûlée"}) {
    std::string straight = text;
    for (const char* quote : {"“", "”"}) {
      if (const size_t at = straight.find(quote); at != straight.npos) straight.replace(at, 3, "\"");
    }
    for (size_t at = straight.find("’"); at != straight.npos; at = straight.find("’")) straight.replace(at, 3, "'");
    EXPECT_EQ(repaired(text), straight);
  }
  EXPECT_EQ(repaired("CAFÉ”"), "café\"");
  EXPECT_EQ(repaired("«CAFÉ»"), "«café»");
}

TEST(ClipCleaning, ResolvesReferencesAsEachProgramDoes) {
  EXPECT_EQ(clean_clip_text("a &amp; b", ClipCleaning::plain, entities()), "a &amp; b");
  EXPECT_EQ(repaired("a &amp; b &EACUTE; &amp b"), "a & b é &amp b");
  EXPECT_EQ(repaired("<b> &amp;"), "<b> &amp;");
  EXPECT_EQ(openai("<b> &amp; &notit; &#x80; &#0;"), "<b> & ¬it; € \xEF\xBF\xBD");
  EXPECT_EQ(openai("&amp;lt;"), "<");
  EXPECT_EQ(openai("& &; &#; &#x; &unknown;"), "& &; &#; &#x; &unknown;");
  EXPECT_EQ(openai("<&#99999999999999999999;>"), "<\xEF\xBF\xBD>");
}

TEST(ClipCleaning, ResolvesDeepReferencesInBoundedRounds) {
  std::string text = "&";
  for (int i = 0; i < 200000; ++i) text += "amp;";
  EXPECT_LT(repaired(text).size(), text.size());
}

TEST(ClipCleaning, NormalisesLongRunsOfMarks) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += "\xCC\x81\xCC\xA7";  // classes 230 and 202 in turn
  const std::u32string normal = normalize_nfc(to_utf32(text));
  ASSERT_EQ(normal.size(), 400000u);
  EXPECT_EQ(normal[0], U'\u00E1');
  EXPECT_EQ(normal[1], U'\u0327');
  EXPECT_EQ(normal.back(), U'\u0301');
}

TEST(ClipCleaning, LowersSigmaByItsPlace) {
  EXPECT_EQ(repaired("ΣΊΣΥΦΟΣ Σ ΑΣ' ΑΣ'Α"), "σίσυφος σ ας' ασ'α");
  EXPECT_EQ(clean_clip_text("ΟΣ", ClipCleaning::plain, entities()), "οσ");
  EXPECT_EQ(repaired("İ"), "i\xCC\x87");
}

}  // namespace
}  // namespace danqing
