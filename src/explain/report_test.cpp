// The reports of a fixed program on a fixed machine, word by word. The expected texts are changed by hand only.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "explain/report_testing.h"
#include "explain/verdict.h"
#include "hardware/machine_json.h"

namespace danqing {
namespace {

using nlohmann::json;

// Equal but for the last digits of floats, which another compiler may round another way.
void expect_same(const json& got, const json& expected, const std::string& at = "") {
  if (expected.is_number_float() && got.is_number()) {
    EXPECT_NEAR(got.get<double>(), expected.get<double>(), 1e-6 * std::fabs(expected.get<double>())) << at;
  } else if (expected.is_structured() && got.type() == expected.type()) {
    EXPECT_EQ(got.size(), expected.size()) << at << ": " << got.dump();
    for (const auto& [key, value] : expected.items()) {
      if (got.is_array()) {
        if (std::stoul(key) < got.size()) expect_same(got[std::stoul(key)], value, at + "[" + key + "]");
      } else {
        ASSERT_TRUE(got.contains(key)) << at << " lacks " << key;
        expect_same(got[key], value, at + "." + key);
      }
    }
  } else {
    EXPECT_EQ(got, expected) << at;
  }
}

TEST(Report, TextOfAPrice) {
  EXPECT_EQ(report_text(Example().price()), R"(Small & plain on a <small> machine
size 512x384, steps 10, sampler euler, seed 7

phase        times     memory     products    one run   all runs  bound by
load             1   29.6 MiB            -       1 ms       1 ms  disk
encode           1   22.4 MiB   12.6 MFLOP     191 us     191 us  compute
denoise         10   26.3 MiB   6.04 GFLOP       8 ms      82 ms  compute
all                  29.6 MiB   6.05 GFLOP                 83 ms  compute

memory: 29.6 MiB while it is at "load unet" = weights 290 KiB + arena 8.28 MiB +
  buffers 1.00 MiB + the process itself 20.0 MiB

Fits: 29.6 MiB at most, 46 % of the 64.0 MiB that may be used.
Compute-bound: arithmetic binds 91 % of the predicted time, and the phases would
  run at 74 % of this machine's f32 peak of 100 GFLOP/s.
Twice the arithmetic would save 46 % of the time, twice the memory bandwidth
  4.0 %, a disk twice as fast 0.4 %.
Most of the time goes to denoise (98 %); by kind of op: convolutions 91 %, norms
  and moves 7.2 %.
)");
}

TEST(Report, TextOfAPainting) {
  EXPECT_EQ(report_text(Example().painted()), R"(Small & plain on a <small> machine
size 512x384, steps 10, sampler euler, seed 7

phase        times     memory     products  predicted   measured  bound by
load             1   29.6 MiB            -       1 ms       5 ms  disk
encode           1   22.4 MiB   12.6 MFLOP     191 us     238 us  compute
denoise         10   26.3 MiB   6.04 GFLOP      82 ms     102 ms  compute
all                  29.6 MiB   6.05 GFLOP      83 ms     120 ms  compute

memory: 29.6 MiB while it is at "load unet" = weights 290 KiB + arena 8.28 MiB +
  buffers 1.00 MiB + the process itself 20.0 MiB

Fits: 29.6 MiB at most, 46 % of the 64.0 MiB that may be used.
Compute-bound: arithmetic binds 91 % of the predicted time, and the phases ran
  at 59 % of this machine's f32 peak of 100 GFLOP/s.
Twice the arithmetic would save 46 % of the time, twice the memory bandwidth
  4.0 %, a disk twice as fast 0.4 %.
Most of the time goes to denoise (95 %); by kind of op: convolutions 88 %, norms
  and moves 7.0 %.
It took 120 ms; predicted were 83 ms, 31 % less.
Memory allocated: to the byte what was planned; the process held 34.0 MiB at
  most, predicted were 29.6 MiB, 13 % less.
Kernels ran 85 % of the time and loading took 4.2 %; 11 % went to the host
  between them.
)");
}

TEST(Report, TextOfWhatDoesNotFit) {
  const Example e;
  Subject s = e.price();
  s.limit = Bytes(24 * kMiB), s.fits = false;
  s.notes = {"the size is rounded to 512x384"};
  const std::string text = report_text(s);
  EXPECT_NE(text.find("\nDoes not fit: it needs 29.6 MiB and 24.0 MiB may be used, 5.56 MiB too little.\nNo single "
                      "change would do.\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\nnote: the size is rounded to 512x384\n")) << text;
  s.remedies = {"--precision f16 (22.0 MiB)", "--size 448x320 (23.0 MiB)"};
  EXPECT_NE(report_text(s).find("\nThis would do: --precision f16 (22.0 MiB); or --size 448x320 (23.0 MiB).\n"),
            std::string::npos);
  EXPECT_EQ(report_json(s)["remedies"], json(s.remedies));
  EXPECT_EQ(report_json(s)["fits"], false);
}

TEST(Report, JsonOfAPrice) {
  const Example e;
  json got = report_json(e.price());
  EXPECT_EQ(got["machine"], to_json(e.machine));
  EXPECT_EQ(got["verdict"][0], "Fits: 29.6 MiB at most, 46 % of the 64.0 MiB that may be used.");
  got.erase("machine"), got.erase("verdict");
  expect_same(got, json::parse(R"({
  "arithmetic": "f32",
  "bound_by": "compute",
  "fits": true,
  "memory": {
    "arena_bytes": 8683520,
    "base_bytes": 20971520,
    "io_bytes": 1048576,
    "limit_bytes": 67108864,
    "peak_bytes": 31000064,
    "peak_during": "load unet",
    "phases": [
      {
        "arena_bytes": 8683520,
        "components": [
          {"component": "text", "peak_bytes": 29885440, "staging_bytes": 8650752, "weights_bytes": 263168},
          {"component": "unet", "peak_bytes": 31000064, "staging_bytes": 8683520, "weights_bytes": 296448}
        ],
        "io_bytes": 1048576,
        "name": "load",
        "peak_bytes": 31000064,
        "times": 1,
        "weights_bytes": 296448
      },
      {
        "arena_bytes": 1114112,
        "io_bytes": 1179648,
        "name": "encode",
        "peak_bytes": 23528448,
        "times": 1,
        "weights_bytes": 263168
      },
      {
        "arena_bytes": 2097152,
        "io_bytes": 4194304,
        "name": "denoise",
        "peak_bytes": 27559424,
        "times": 10,
        "weights_bytes": 296448
      }
    ],
    "weights_bytes": 296448
  },
  "model": "Small & plain",
  "notes": [],
  "remedies": [],
  "request": {"height": 384, "prompt": ["a <b>fox</b> & \"friends\""], "sampler": "euler", "seed": 7, "steps": 10, "width": 512},
  "seconds": 0.0830730806,
  "seconds_by_bound": {"bandwidth": 0.00661912731, "compute": 0.0756982157, "disk": 0.0007557376, "overhead": 0.0},
  "work": {
    "bytes": 77721184,
    "flops": 6052380672,
    "kinds": [
      {"bytes": 34411520, "flops": 6039797760, "kind": "convolution", "seconds": 0.075507472, "vector_flops": 5242880},
      {"bytes": 41953280, "flops": 0, "kind": "memory", "seconds": 0.00600332571, "vector_flops": 26214400},
      {"bytes": 394240, "flops": 8388608, "kind": "linear", "seconds": 0.0001058576, "vector_flops": 16384},
      {"bytes": 262144, "flops": 4194304, "kind": "attention", "seconds": 8.488608e-05, "vector_flops": 163840}
    ],
    "phases": [
      {
        "bound_by": "disk",
        "bytes": 700000,
        "components": [
          {"bound_by": "bandwidth", "bytes": 300000, "component": "text", "seconds": 0.0006158016},
          {"bound_by": "disk", "bytes": 400000, "component": "unet", "seconds": 0.0007557376}
        ],
        "flops": 0,
        "name": "load",
        "seconds": 0.0013715392,
        "seconds_by_bound": {"bandwidth": 0.0006158016, "compute": 0.0, "disk": 0.0007557376, "overhead": 0.0},
        "times": 1,
        "total_bytes": 700000,
        "total_flops": 0,
        "total_seconds": 0.0013715392,
        "total_vector_flops": 0,
        "vector_flops": 0
      },
      {
        "bound_by": "compute",
        "bytes": 656384,
        "flops": 12582912,
        "name": "encode",
        "seconds": 0.00019074368,
        "seconds_by_bound": {"bandwidth": 0.0, "compute": 0.00019074368, "disk": 0.0, "overhead": 0.0},
        "times": 1,
        "total_bytes": 656384,
        "total_flops": 12582912,
        "total_seconds": 0.00019074368,
        "total_vector_flops": 180224,
        "vector_flops": 180224
      },
      {
        "bound_by": "compute",
        "bytes": 7636480,
        "flops": 603979776,
        "name": "denoise",
        "seconds": 0.00815107977,
        "seconds_by_bound": {"bandwidth": 0.00600332571, "compute": 0.075507472, "disk": 0.0, "overhead": 0.0},
        "times": 10,
        "total_bytes": 76364800,
        "total_flops": 6039797760,
        "total_seconds": 0.0815107977,
        "total_vector_flops": 31457280,
        "vector_flops": 3145728
      }
    ],
    "vector_flops": 31637504
  }
})"));
}

TEST(Report, JsonOfAPainting) {
  const json got = report_json(Example().painted());
  expect_same(got["measured"], json::parse(R"({
  "allocated_peak_bytes": 10028544,
  "kinds": [
    {"kind": "convolution", "seconds": 0.09438434},
    {"kind": "memory", "seconds": 0.00750415714},
    {"kind": "linear", "seconds": 0.000132322},
    {"kind": "attention", "seconds": 0.0001061076}
  ],
  "phases": [
    {
      "components": [{"component": "text", "seconds": 0.002}, {"component": "unet", "seconds": 0.003}],
      "name": "load",
      "seconds": 0.005,
      "times": 1,
      "total_seconds": 0.005
    },
    {"name": "encode", "seconds": 0.0002384296, "times": 1, "total_seconds": 0.0002384296},
    {"name": "denoise", "seconds": 0.0101888497, "times": 10, "total_seconds": 0.101888497}
  ],
  "rss_peak_bytes": 35651584,
  "seconds": 0.12
})"));
  expect_same(got["error"], json::parse(R"({
  "allocated_peak_bytes": 1.0,
  "phases": [{"name": "load", "seconds": 0.27430784}, {"name": "encode", "seconds": 0.8}, {"name": "denoise", "seconds": 0.8}],
  "rss_peak_bytes": 0.869528378,
  "seconds": 0.692275672
})"));
  json price = report_json(Example().price()), same = got;
  for (const char* key : {"measured", "error", "verdict"}) same.erase(key);
  price.erase("verdict");
  EXPECT_EQ(same, price) << "a painting changes its price";
}

TEST(Report, PartsAddUp) {
  const Example e;
  const json r = report_json(e.price());
  const json& memory = r["memory"];
  const auto parts = [&](const json& of) {
    return of["weights_bytes"].get<int64_t>() + of["arena_bytes"].get<int64_t>() + of["io_bytes"].get<int64_t>() +
           memory["base_bytes"].get<int64_t>();
  };
  EXPECT_EQ(parts(memory), memory["peak_bytes"]);
  EXPECT_EQ(memory["peak_bytes"], (e.plan.peak + e.price().base).value);
  int64_t most = 0;
  for (const json& phase : memory["phases"]) {
    EXPECT_EQ(parts(phase), phase["peak_bytes"]) << phase["name"];
    most = std::max(most, phase["peak_bytes"].get<int64_t>());
  }
  EXPECT_EQ(most, memory["peak_bytes"]);
  json sums{{"flops", 0}, {"vector_flops", 0}, {"bytes", 0}};
  double seconds = 0, bound = 0;
  for (const json& phase : r["work"]["phases"]) {
    for (auto& [key, sum] : sums.items()) {
      EXPECT_EQ(phase["total_" + key], phase[key].get<int64_t>() * phase["times"].get<int64_t>());
      sum = sum.get<int64_t>() + phase["total_" + key].get<int64_t>();
    }
    seconds += phase["total_seconds"].get<double>();
    for (const json& part : phase["seconds_by_bound"]) bound += part.get<double>();
  }
  for (const auto& [key, sum] : sums.items()) EXPECT_EQ(sum, r["work"][key]) << key;
  EXPECT_NEAR(seconds, r["seconds"].get<double>(), 1e-12);
  EXPECT_NEAR(bound, r["seconds"].get<double>(), 1e-12);
}

TEST(Report, AskingForAnotherMachineFollowsThePlansRules) {
  const Example e;
  EXPECT_NEAR(seconds_on(e.price(), e.machine).value, e.plan.cost.seconds.value, 1e-12);
  Machine faster = e.machine;
  faster.bandwidth.value *= 2;
  EXPECT_LT(seconds_on(e.price(), faster).value, e.plan.cost.seconds.value);
}

TEST(Report, PlannedMemoryEndsWithNothingAndPeaksAtThePeak) {
  const Example e;
  const Summary m = summarise(e.price());
  Bytes most;
  for (const MemoryMoment& moment : m.planned_memory) most = std::max(most, moment.allocated);
  EXPECT_EQ(most, e.plan.peak);
  EXPECT_EQ(m.planned_memory.back().allocated, Bytes());
  EXPECT_NEAR(m.planned_memory.back().at.value, e.plan.cost.seconds.value, 1e-12);
}

TEST(Verdict, SaysHowFarApart) {
  EXPECT_EQ(apart(88, 100), "12 % less");
  EXPECT_EQ(apart(103, 100), "3.0 % more");
  EXPECT_EQ(apart(100, 100), "the same");
  EXPECT_EQ(apart(4000, 100), "40 times more");
  EXPECT_EQ(apart(0.25, 100), "400 times less");
  EXPECT_EQ(apart(0, 100), "100 % less");
  EXPECT_EQ(apart(1, 0), "not to be compared");
}

TEST(Report, AnyTextIsReported) {
  const Example e;
  Subject s = e.price();
  s.title = "broken \xff\xc3 name", s.notes = {"\xe2\x82 cut"}, s.request_json = "no JSON";
  const json r = report_json(s);
  EXPECT_NO_THROW(r.dump());
  EXPECT_EQ(r["request"], json::object());
  EXPECT_EQ(report_text(s).find('\x1b'), std::string::npos);
  s.title = "escape \x1b[31m";
  EXPECT_EQ(report_text(s).find('\x1b'), std::string::npos);
}

TEST(Report, NothingAtAllIsReported) {
  const Program program;
  const Plan plan;
  const Machine machine;
  const Trace trace;
  Subject s{program, plan, machine};
  EXPECT_EQ(report_json(s)["seconds"], 0);
  s.trace = &trace;
  EXPECT_EQ(report_json(s)["error"]["seconds"], nullptr);
  EXPECT_FALSE(report_text(s).empty());
}

}  // namespace
}  // namespace danqing
