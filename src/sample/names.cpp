#include "sample/names.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "sample/solver.h"

namespace danqing {
namespace {

constexpr auto kRatio = Space::ratio;
constexpr auto kShare = Space::share;

// Aliases are in the form of `reduced`: lower case, letters and digits only, "+" as "p".
// clang-format off
constexpr SamplerInfo kSamplers[] = {
    {.name = "euler", .label = "Euler",
     .aliases = "eulerdiscretescheduler|flowmatcheulerdiscretescheduler|flowmatcheuler",
     .run = solve_euler},
    {.name = "euler_a", .label = "Euler a",
     .aliases = "eulerancestral|eulerancestraldiscretescheduler|eulerancestralrf",
     .run = solve_euler, .stochastic = true, .eta = 1},
    {.name = "heun", .label = "Heun", .aliases = "heundiscretescheduler|flowmatchheundiscretescheduler",
     .run = solve_heun, .evaluations = 2},
    {.name = "dpm_2", .label = "DPM2", .aliases = "kdpm2discretescheduler",
     .run = solve_dpm_2, .grid = Grid::rounded_points, .evaluations = 2},
    {.name = "dpm_2_a", .label = "DPM2 a", .aliases = "dpm2ancestral|kdpm2ancestraldiscretescheduler",
     .run = solve_dpm_2, .grid = Grid::rounded_points, .evaluations = 2, .stochastic = true, .eta = 1},
    {.name = "lms", .label = "LMS", .aliases = "lmsdiscretescheduler",
     .run = solve_lms, .order = 4, .max_order = 4},
    {.name = "dpmpp_2m", .label = "DPM++ 2M", .aliases = "dpmsolvermultistepscheduler|dpmsolverpp",
     .run = solve_dpmpp_multistep, .grid = Grid::ends, .diffusers = kShare, .order = 2, .max_order = 3},
    {.name = "dpmpp_2m_sde", .label = "DPM++ 2M SDE", .aliases = "dpmpp2msdegpu",
     .run = solve_dpmpp_multistep, .grid = Grid::ends, .diffusers = kShare, .stochastic = true, .brownian = true,
     .eta = 1, .order = 2, .max_order = 3},
    {.name = "dpmpp_2m_sde_heun", .label = "DPM++ 2M SDE Heun", .aliases = "dpmpp2msdeheungpu",
     .run = solve_dpmpp_multistep, .grid = Grid::ends, .diffusers = kShare, .stochastic = true, .brownian = true,
     .eta = 1, .order = 2, .max_order = 3, .heun = true},
    {.name = "dpmpp_3m", .label = "DPM++ 3M", .aliases = "",
     .run = solve_dpmpp_multistep, .grid = Grid::ends, .diffusers = kShare, .order = 3, .max_order = 3},
    {.name = "dpmpp_3m_sde", .label = "DPM++ 3M SDE", .aliases = "dpmpp3msdegpu",
     .run = solve_dpmpp_multistep, .grid = Grid::ends, .diffusers = kShare, .stochastic = true, .brownian = true,
     .eta = 1, .order = 3, .max_order = 3, .heun = true},
    {.name = "dpmpp_2s_a", .label = "DPM++ 2S a", .aliases = "dpmpp2sancestral|dpm2sa",
     .run = solve_dpmpp_2s_ancestral, .evaluations = 2, .stochastic = true, .eta = 1},
    {.name = "dpmpp_sde", .label = "DPM++ SDE", .aliases = "dpmppsdegpu|dpmsolversdescheduler",
     .run = solve_dpmpp_sde, .evaluations = 2, .stochastic = true, .brownian = true, .eta = 1},
    {.name = "dpmpp_singlestep", .label = "DPM++ 2S", .aliases = "dpmsolversinglestepscheduler|dpmpp2s",
     .run = solve_dpmpp_singlestep, .grid = Grid::ends, .diffusers = kShare, .order = 2, .max_order = 2},
    {.name = "ddim", .label = "DDIM", .aliases = "ddimscheduler",
     .run = solve_euler, .grid = Grid::ddim, .diffusers = kShare, .elsewhere = kShare, .stochastic = true},
    {.name = "pndm", .label = "PLMS", .aliases = "pndmscheduler",
     .run = solve_pndm, .grid = Grid::plms, .diffusers = kShare, .elsewhere = kShare},
    {.name = "unipc", .label = "UniPC", .aliases = "unipcmultistepscheduler|unipcbh2",
     .run = solve_unipc, .grid = Grid::ends_from_one, .diffusers = kShare, .elsewhere = kShare, .order = 2,
     .max_order = 3},
    {.name = "deis", .label = "DEIS", .aliases = "deismultistepscheduler",
     .run = solve_deis, .grid = Grid::ends_at_min, .diffusers = kShare, .elsewhere = kShare, .order = 2,
     .max_order = 2},
    {.name = "lcm", .label = "LCM", .aliases = "lcmscheduler",
     .run = solve_lcm, .grid = Grid::lcm, .diffusers = kShare, .stochastic = true},
};
// clang-format on

constexpr ScheduleInfo kSchedules[] = {
    {Schedule::automatic, "automatic", "Automatic", "auto|default", false},
    {Schedule::normal, "normal", "Normal", "uniform|discrete", false},
    {Schedule::karras, "karras", "Karras", "", false},
    {Schedule::exponential, "exponential", "Exponential", "", false},
    {Schedule::sgm_uniform, "sgm_uniform", "SGM Uniform", "", false},
    {Schedule::simple, "simple", "Simple", "", false},
    {Schedule::ddim_uniform, "ddim_uniform", "DDIM", "ddim", false},
    {Schedule::beta, "beta", "Beta", "", false},
    {Schedule::ays_sd15, "ays_sd15", "Align Your Steps", "ays|alignyourstepssd15", true},
    {Schedule::ays_sdxl, "ays_sdxl", "Align Your Steps SDXL", "aysxl", true},
    {Schedule::kl_optimal, "kl_optimal", "KL Optimal", "", true},
};

std::string reduced(std::string_view text) {
  std::string out;
  for (unsigned char c : text)
    if (c == '+')
      out += 'p';
    else if (std::isalnum(c))
      out += static_cast<char>(std::tolower(c));
  return out;
}

bool listed(std::string_view word, std::string_view aliases) {
  for (size_t at = 0; at < aliases.size();) {
    const size_t end = std::min(aliases.find('|', at), aliases.size());
    if (aliases.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view word) {
  for (const Row& row : rows)
    if (word == reduced(row.name) || word == reduced(row.label) || listed(word, row.aliases)) return &row;
  return nullptr;
}

// Plain names, and those with "k_" or "sample_" in front.
const SamplerInfo* find_sampler(std::string_view word) {
  for (std::string_view prefix : {"", "k", "sample", "ksample"})
    if (word.starts_with(prefix))
      if (const auto* row = find(samplers(), word.substr(prefix.size()))) return row;
  return nullptr;
}

template <class Row>
[[noreturn]] void unknown(std::string_view what, std::string_view name, std::span<const Row> rows) {
  std::string text = std::string(what) + " \"" + std::string(name.substr(0, 80)) + "\" is not known; known are";
  for (const Row& row : rows) text += (&row == rows.data() ? " " : ", ") + std::string(row.name);
  throw Error(Fault::request, text);
}

}  // namespace

std::span<const SamplerInfo> samplers() { return kSamplers; }
std::span<const ScheduleInfo> schedules() { return kSchedules; }

SamplerChoice sampler_named(std::string_view name) {
  const std::string word = reduced(name);
  if (const auto* row = find_sampler(word)) return {row, std::nullopt};
  for (const ScheduleInfo& schedule : schedules()) {  // "DPM++ 2M Karras"
    const std::string tail = reduced(schedule.name);
    if (!word.ends_with(tail)) continue;
    if (const auto* row = find_sampler(std::string_view(word).substr(0, word.size() - tail.size())))
      return {row, schedule.schedule};
  }
  unknown("sampler", name, samplers());
}

Schedule schedule_named(std::string_view name) {
  if (const auto* row = find(schedules(), reduced(name))) return row->schedule;
  unknown("schedule", name, schedules());
}

const ScheduleInfo& info(Schedule schedule) {
  for (const ScheduleInfo& row : kSchedules)
    if (row.schedule == schedule) return row;
  DANQING_CHECK(false);
  return kSchedules[0];
}

}  // namespace danqing
