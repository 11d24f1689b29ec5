#include "text/qwen_tokenizer.h"

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

const QwenTokenizer& tokenizer() {
  static const QwenTokenizer loaded(tokenizer_data());
  return loaded;
}

TEST(QwenTokenizer, EqualsEveryGoldenPrompt) {
  DANQING_NEEDS_GOLDEN("tokenizer/qwen3.json");
  const auto cases = read_json(golden("tokenizer/qwen3.json")).at("cases");
  ASSERT_EQ(cases.size(), 179u);
  for (const auto& entry : cases) {
    const std::string text = entry.at("text");
    SCOPED_TRACE(nlohmann::json(text.substr(0, 60)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    EXPECT_EQ(qwen_chat(text), entry.at("chat").get<std::string>());
    EXPECT_EQ(tokenizer().encode(text), entry.at("plain_ids").get<std::vector<int32_t>>());
    auto chat = entry.at("chat_ids").get<std::vector<int32_t>>();
    const QwenPrompt prompt = encode_qwen_chat(tokenizer(), text);
    EXPECT_EQ(prompt.ids.size() + prompt.cut, chat.size());
    EXPECT_EQ(prompt.ids.size(), entry.at("kept_of_512").get<size_t>());
    chat.resize(prompt.ids.size());
    EXPECT_EQ(prompt.ids, chat);
  }
}

TEST(QwenTokenizer, BoundsHostileTexts) {
  EXPECT_GT(tokenizer().encode(std::string(500000, ' ') + "a").size(), 1u);
  EXPECT_GT(tokenizer().encode(std::string(500000, '<')).size(), 1u);
  EXPECT_EQ(tokenizer().encode("\xFF"), tokenizer().encode("\xEF\xBF\xBD"));
  EXPECT_THROW(tokenizer().encode(std::string((1 << 20) + 1, 'a')), Error);
}

}  // namespace
}  // namespace danqing
