// A request made ready: everything known and checked before a weight is loaded. Pricing stops here; painting goes on.
#pragma once

#include <functional>
#include <memory>

#include "model/stable_diffusion.h"
#include "pipeline/adapters.h"
#include "pipeline/request.h"
#include "plan/plan.h"
#include "run/cpu/cpu.h"
#include "sample/noise.h"
#include "sample/sampler.h"
#include "text/chunks.h"
#include "text/emphasis.h"

namespace danqing {

// Files that come with danqing: data/, models/.
struct Places {
  std::string data;    // vocabularies
  std::string models;  // the small model
};
Places find_places();

// Habits of a program whose pictures are to be matched.
struct Habits {
  Convention convention;
  Emphasis emphasis;
  ClipCleaning cleaning;
  NoiseKind noise;
  bool zero_negative;     // no negative prompt given: guide away from zeros, where the model's reference does
  bool skip_negative;     // clip skip holds for negative prompts too
  bool sample_posterior;  // image to image: draw from the VAE's distribution (diffusers) or take its mean
};
Habits habits_of(const std::string& like);  // Error(request) for an unknown program

// Where a plan would run, and how much it may take.
struct Workplace {
  Machine machine;
  cpu::Ways ways;
  Bytes base;       // of the process before any work
  Bytes limit;      // for all, the base included; 0: none
  Bytes available;  // free now; 0: not known
};

struct Choice {               // what the planner may vary to fit
  bool half_weights = false;  // f32 arithmetic over weights held in f16
  bool in_turn = false;
  int64_t tile = 0;  // latent values
  bool operator==(const Choice&) const = default;
};

struct Job {
  Request request;  // resolved: nothing left to default
  std::shared_ptr<const Checkpoint> checkpoint;
  std::shared_ptr<const Model> model;
  Habits habits;
  Precision precision;
  int threads = 1;
  bool guided = true;
  bool zero_negative = false;  // guided away from zeros instead of an encoded text
  std::vector<std::vector<PromptChunks>>
      chunks;           // [text encoder][distinct prompt]: the negatives first, then the prompts
  int64_t prompts = 1;  // distinct prompts a half
  std::shared_ptr<SamplerRun> sampler;
  std::shared_ptr<const Adapters> adapters = std::make_shared<Adapters>();
  Canvas canvas;
  Program program;
  Plan plan;
  Choice choice;
  std::vector<std::string> notes;  // what a person should know: rounded sizes, cut prompts, unused parts
};

// Why a request does not fit, and what would do.
struct Shortfall {
  Bytes needed, limit;
  std::vector<std::string> remedies;  // closest first
};

struct Prepared {
  std::optional<Job> job;
  std::optional<Shortfall> shortfall;  // set: the job is the smallest that was tried
};

// Throws Error(request) or Error(file). Does not fit: a value. `request.model` must name a file.
Prepared prepare(Request, const Workplace&, const Places&);

}  // namespace danqing
