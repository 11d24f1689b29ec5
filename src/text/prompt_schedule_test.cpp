#include "text/prompt_schedule.h"

#include "base/error.h"
#include "text/text_golden_test.h"

namespace danqing {
namespace {

using nlohmann::json;

json shown(const std::vector<ScheduledPrompt>& schedule) {
  json out = json::array();
  for (const auto& stretch : schedule) out.push_back({stretch.last_step, stretch.text});
  return out;
}

TEST(PromptSchedule, EqualsEveryGoldenSchedule) {
  DANQING_NEEDS_GOLDEN("tokenizer/a1111_schedule.json");
  const auto cases = read_json(golden("tokenizer/a1111_schedule.json")).at("cases");
  ASSERT_EQ(cases.size(), 172u);
  for (const auto& entry : cases) {
    const std::string text = entry.at("text");
    const int steps = entry.at("steps");
    SCOPED_TRACE(text + " in " + std::to_string(steps));
    const auto& plain = entry.at("schedule");
    EXPECT_EQ(shown(schedule_prompt(text, {steps, 0, false})), plain);
    EXPECT_EQ(shown(schedule_prompt(text, {steps, 0, true})), entry.value("old_scheduling", plain));
    EXPECT_EQ(shown(schedule_prompt(text, {steps, steps, false})), entry.at("hires_pass"));
  }
}

TEST(PromptSchedule, SplitsAtAnd) {
  DANQING_NEEDS_GOLDEN("tokenizer/a1111_schedule.json");
  const auto cases = read_json(golden("tokenizer/a1111_schedule.json")).at("and_split");
  ASSERT_EQ(cases.size(), 9u);
  for (const auto& entry : cases) {
    json parts = json::array();
    for (const auto& part : split_and(entry.at("text").get<std::string>())) parts.push_back({part.text, part.weight});
    EXPECT_EQ(parts, entry.at("parts")) << entry.dump();
  }
  EXPECT_EQ(split_and("BRAND AND SAND").size(), 2u);
  EXPECT_EQ(split_and("a AND b :-1")[1].weight, -1);
  EXPECT_EQ(split_and("a:1e3")[0].weight, 1);
}

TEST(PromptSchedule, LeavesWhatItCannotReadAsText) {
  for (const char* text : {"a|b [c:d:0.5]", "[a|b:0.5]", "[c:d:0.5] \\", "[a:b:c] (x [y)", "[a:b:1e999]"}) {
    EXPECT_EQ(shown(schedule_prompt(text, {10})), json::array({{10, text}})) << text;
  }
  EXPECT_EQ(shown(schedule_prompt("(a] [c:d:5]", {10})), (json{{5, "(a] c"}, {10, "(a] d"}}));
  EXPECT_EQ(shown(schedule_prompt("[x (y] [c:d:5]) z", {10})), (json{{5, "[x (y] c) z"}, {10, "[x (y] d) z"}}));
}

TEST(PromptSchedule, BoundsHostileTexts) {
  EXPECT_EQ(schedule_prompt(std::string(1000000, '['), {10}).size(), 1u);
  std::string nested;
  for (int i = 0; i < 200; ++i) nested += "[a:";
  for (int i = 0; i < 200; ++i) nested += ":1]";
  EXPECT_EQ(schedule_prompt(nested, {10}).size(), 2u);
  EXPECT_THROW(schedule_prompt("[a|b]" + std::string(1000000, 'x'), {1000}), Error);
  std::string empty;
  for (int i = 0; i < 300000; ++i) empty += "[|]";
  EXPECT_THROW(schedule_prompt(empty, {1000}), Error);
  EXPECT_THROW(schedule_prompt("a", {0}), Error);
  EXPECT_EQ(schedule_prompt("[a:b:99999999999999999999]", {10}).size(), 1u);
}

}  // namespace
}  // namespace danqing
