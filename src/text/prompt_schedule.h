// Prompts that change while the picture is made: `[from:to:when]`, `[a|b]`, and prompts joined by AND. A1111's
// language.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace danqing {

struct ScheduledPrompt {
  int last_step = 0;  // counted from 1; holds from behind the one before
  std::string text;
};

// How `when` is read: a number with a dot is a fraction of the steps, one without is a step.
struct PromptSteps {
  int steps = 1;          // of this pass
  int first_pass = 0;     // second pass (hires): steps of the first, which `when` counts as well (1.5: half the second)
  bool old_rule = false;  // below 1 a fraction, from 1 on a step, dot or not; only for a first pass
};

// The prompts of each stretch of steps; at least one, the last with last_step = steps.
//   [to:when]  [from::when]  [from:to:when]   `from` up to and with step `when`, `to` behind it
//   [a|b|c]                                   one after the other, a step each
// Groups nest and may stand in round or square brackets, which stay for parse_a1111. What does not read as a group is
// text; a `|` outside any group, or a backslash with nothing behind, makes the whole prompt plain text, as in A1111.
// Own limits: more than 256 brackets open at once make the prompt plain text. Throws Error(request) where steps < 1, or
// where the texts of all stretches take more than 64 MiB.
std::vector<ScheduledPrompt> schedule_prompt(std::string_view text, const PromptSteps& steps);

struct WeightedPrompt {
  std::string text;
  double weight = 1;
};

// `a AND b :0.8`: AND as a whole upper-case word, an optional weight behind the last colon. Each part may be scheduled.
std::vector<WeightedPrompt> split_and(std::string_view text);

}  // namespace danqing
