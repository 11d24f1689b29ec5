#include "sample/names.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace danqing {
namespace {

TEST(Names, CommonSpellings) {
  const struct {
    const char *spelling, *sampler;
    std::optional<Schedule> schedule;
  } rows[] = {
      {"euler_a", "euler_a", {}},
      {"Euler a", "euler_a", {}},
      {"EULER A", "euler_a", {}},
      {"k_euler_a", "euler_a", {}},
      {"k_euler_ancestral", "euler_a", {}},
      {"euler_ancestral", "euler_a", {}},
      {"sample_euler", "euler", {}},
      {"EulerDiscreteScheduler", "euler", {}},
      {"EulerAncestralDiscreteScheduler", "euler_a", {}},
      {"DPM++ 2M", "dpmpp_2m", {}},
      {"DPM++ 2M Karras", "dpmpp_2m", Schedule::karras},
      {"dpm++ 2m sde karras", "dpmpp_2m_sde", Schedule::karras},
      {"dpmpp_2m_karras", "dpmpp_2m", Schedule::karras},
      {"dpm++2mv", nullptr, {}},
      {"DPM++ 2M SDE Heun Exponential", "dpmpp_2m_sde_heun", Schedule::exponential},
      {"DPM++ 3M SDE", "dpmpp_3m_sde", {}},
      {"dpmpp_2s_ancestral", "dpmpp_2s_a", {}},
      {"DPM++ SDE Karras", "dpmpp_sde", Schedule::karras},
      {"k_dpm_2_a", "dpm_2_a", {}},
      {"DPM2 a Karras", "dpm_2_a", Schedule::karras},
      {"DPMSolverMultistepScheduler", "dpmpp_2m", {}},
      {"DDIM", "ddim", {}},
      {"PNDMScheduler", "pndm", {}},
      {"plms", "pndm", {}},
      {"uni_pc", "unipc", {}},
      {"UniPCMultistepScheduler", "unipc", {}},
      {"uni_pc_bh2", "unipc", {}},
      {"k_lms", "lms", {}},
      {"LCM", "lcm", {}},
      {"FlowMatchEulerDiscreteScheduler", "euler", {}},
      {"Euler SGM Uniform", "euler", Schedule::sgm_uniform},
  };
  for (const auto& row : rows) {
    if (!row.sampler) {
      EXPECT_THROW(sampler_named(row.spelling), Error) << row.spelling;
      continue;
    }
    const SamplerChoice got = sampler_named(row.spelling);
    EXPECT_EQ(got.sampler->name, row.sampler) << row.spelling;
    EXPECT_EQ(got.schedule, row.schedule) << row.spelling;
  }
  EXPECT_EQ(schedule_named("SGM Uniform"), Schedule::sgm_uniform);
  EXPECT_EQ(schedule_named("KARRAS"), Schedule::karras);
  EXPECT_EQ(schedule_named("kl-optimal"), Schedule::kl_optimal);
}

TEST(Names, UnknownListsTheKnown) {
  for (const char* name : {"", "eulr", "Karras", "dpm", "k_", "euler_a_x", "DPM++ 2M Carras"}) try {
      sampler_named(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::request);
      EXPECT_NE(std::string(e.what()).find("dpmpp_2m_sde"), std::string::npos) << e.what();
    }
  EXPECT_THROW(schedule_named("carras"), Error);
}

TEST(Names, EveryNameAndLabelFindsItsOwnRow) {
  std::set<std::string_view> names;
  for (const SamplerInfo& row : samplers()) {
    EXPECT_EQ(sampler_named(row.name).sampler, &row) << row.name;
    EXPECT_EQ(sampler_named(row.label).sampler, &row) << row.label;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (const ScheduleInfo& schedule : schedules())
      if (schedule.schedule != Schedule::automatic) {
        const auto both = sampler_named(std::string(row.label) + " " + std::string(schedule.name));
        EXPECT_EQ(both.sampler, &row) << row.label << " " << schedule.name;
        EXPECT_EQ(both.schedule, schedule.schedule) << row.label << " " << schedule.name;
      }
  }
  for (const ScheduleInfo& row : schedules()) {
    EXPECT_EQ(schedule_named(row.name), row.schedule);
    EXPECT_EQ(schedule_named(row.label), row.schedule);
    EXPECT_EQ(&info(row.schedule), &row);
  }
}

}  // namespace
}  // namespace danqing
