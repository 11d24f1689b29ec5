// Decides a run before it starts: levels, steps, where an image enters. One function a convention.
#include <algorithm>
#include <cmath>
#include <string>

#include "sample/solver.h"

namespace danqing {
namespace {

using Values = std::vector<double>;

struct Layout {
  Values times, sigmas;  // sigmas: one more than times, or as many when the grid decides where a step ends
};

bool ends_grid(Grid g) { return g == Grid::ends || g == Grid::ends_from_one || g == Grid::ends_at_min; }

// How many of `total` leading steps diffusers leaves out; its flow pipelines do not round in between.
int steps_left_out(const SamplerConfig& c, int total) {
  if (!c.strength) return 0;
  const double kept = total * *c.strength;
  if (*c.strength <= 0) return total;
  const bool flow = c.training.prediction == Prediction::flow;
  return flow ? static_cast<int>(total - std::min<double>(kept, total))
              : total - std::min(static_cast<int>(kept), total);
}

Values spaced_times(const SamplerConfig& c, int count) {
  const bool ends = ends_grid(c.sampler->grid);
  const int n = c.steps, points = n + ends;
  Values t;
  if (c.sampler->grid == Grid::lcm) {
    const int taught = std::max(50, n), stride = count / taught;  // evenly spaced indices, from the largest down
    for (int i = 0; i < n; ++i)
      t.push_back((taught - static_cast<int>(static_cast<double>(taught) * i / n)) * stride - 1);
  } else if (c.spacing == Spacing::leading) {
    for (int i = points - 1; i >= ends; --i) t.push_back(i * (count / points) + c.steps_offset);
  } else if (c.spacing == Spacing::trailing) {
    for (int i = 0; i < n; ++i) t.push_back(std::nearbyint(count - i * (static_cast<double>(count) / n)) - 1);
  } else {
    t = linspace(0, count - 1, points);
    std::reverse(t.begin(), t.end());
    t.resize(n);
    if (ends || c.sampler->grid == Grid::ddim || c.sampler->grid == Grid::plms)
      for (double& v : t) v = std::nearbyint(v);
  }
  for (double& v : t) v = std::clamp(v, 0.0, count - 1.0);
  return t;
}

// Replaces sigmas by another schedule between the same ends (or, for the `ends` grids, over all levels).
bool respace(const SamplerConfig& c, double max, double min, Values& sigmas) {
  const int n = static_cast<int>(sigmas.size());
  if (c.lu_lambdas || c.schedule == Schedule::exponential)
    sigmas = exponential_sigmas(max, min, n);
  else if (c.schedule == Schedule::karras)
    sigmas = karras_sigmas(max, min, n);
  else if (c.schedule == Schedule::beta)
    sigmas = beta_sigmas(max, min, n);
  else
    return false;
  return true;
}

Layout flow_layout(const SamplerConfig& c, const Levels& levels) {
  const int n = c.steps;
  const bool ends = ends_grid(c.sampler->grid);
  Layout out;
  if (!c.sigmas.empty()) {
    out.sigmas.assign(c.sigmas.begin(), c.sigmas.end() - 1);
  } else if (ends) {
    const bool from_one = c.sampler->grid == Grid::ends_from_one;
    out.sigmas = linspace(1, 0.001, n + 1);
    if (!from_one) std::reverse(out.sigmas.begin(), out.sigmas.end());
    out.sigmas.pop_back();
    if (!from_one)  // what the others lack to one
      for (double& s : out.sigmas) s = 1 - s;
  } else if (c.linspace_sigmas) {
    out.sigmas = linspace(1, 1.0 / n, n);
  } else {
    out.sigmas = linspace(levels.max(), levels.min(), n);  // shifted already: the small end is shifted twice
  }
  for (double& s : out.sigmas) {
    if (c.dynamic_mu) {
      const double e = c.dynamic_linear ? *c.dynamic_mu : std::exp(*c.dynamic_mu);
      s = e / (e + 1 / s - 1);
    } else if (c.sigmas.empty()) {
      s = shifted(s, c.training.shift);
    }
    if (c.sampler->grid == Grid::ends_from_one) s = std::min(s, 1 - 1e-6);
  }
  respace(c, out.sigmas.front(), out.sigmas.back(), out.sigmas);
  for (double s : out.sigmas) out.times.push_back(ends ? std::trunc(s * 1000) : s * 1000);
  const bool at_min = c.end_at_min.value_or(c.sampler->grid == Grid::ends_at_min);
  out.sigmas.push_back(!c.sigmas.empty() ? c.sigmas.back() : at_min ? out.sigmas.back() : 0);
  return out;
}

Layout discrete_layout(const SamplerConfig& c, const Levels& levels) {
  const bool ends = ends_grid(c.sampler->grid);
  Layout out;
  if (!c.sigmas.empty()) {
    out.sigmas = c.sigmas;
    for (size_t i = 0; i + 1 < c.sigmas.size(); ++i) out.times.push_back(levels.time(c.sigmas[i]));
    return out;
  }
  out.times = c.timesteps.empty() ? spaced_times(c, c.training.count) : c.timesteps;
  for (double t : out.times) out.sigmas.push_back(levels.sigma_linear(t));
  const bool respaced =
      respace(c, ends ? levels.max() : out.sigmas.front(), ends ? levels.min() : out.sigmas.back(), out.sigmas);
  if (respaced) {
    const bool karras = c.schedule == Schedule::karras || c.lu_lambdas;
    for (size_t i = 0; i < out.times.size(); ++i) {
      const double t = levels.time(out.sigmas[i]);
      const bool round = karras && (ends || c.sampler->grid == Grid::rounded_points);
      out.times[i] = round ? std::nearbyint(t) : ends ? std::trunc(t) : t;
    }
  }
  const bool at_min = c.end_at_min.value_or(c.sampler->grid == Grid::ends_at_min);
  out.sigmas.push_back(!at_min ? 0 : respaced ? out.sigmas.back() : levels.min());
  return out;
}

// DDIM and PNDM: a step from time t ends at t - 1000 / n, whatever the next step's time is.
std::vector<Leg> ddim_legs(const RunPlan& p, Values times) {
  const int n = p.config.steps, stride = p.config.training.count / n;
  const bool plms = p.config.sampler->grid == Grid::plms;
  if (plms && times.size() > 1) times.insert(times.begin() + 1, times[1]);
  times.erase(times.begin(),
              times.begin() + std::min<int>(steps_left_out(p.config, n), static_cast<int>(times.size())));
  if (steps_left_out(p.config, n) == n) times.clear();
  const auto level = [&](double t) {
    if (t >= 0) return p.level(p.levels.sigma_linear(t), t);
    return p.level(p.config.final_alpha_one ? 0 : p.levels.min(), 0);
  };
  std::vector<Leg> legs;
  for (double t : times) {
    const bool repeats = plms && legs.size() == 1;  // the first step again, from its end
    legs.push_back(repeats ? Leg{level(t), level(std::min(t + stride, p.config.training.count - 1.0)), level(t)}
                           : Leg{level(t), level(t), level(t - stride)});
  }
  return legs;
}

std::vector<Leg> diffusers_legs(const RunPlan& p) {
  const SamplerConfig& c = p.config;
  const bool own = c.schedule == Schedule::automatic && c.sigmas.empty() && !p.levels.flow();
  if (own && (c.sampler->grid == Grid::ddim || c.sampler->grid == Grid::plms))
    return ddim_legs(p, c.timesteps.empty() ? spaced_times(c, c.training.count) : c.timesteps);
  Layout layout;
  switch (c.schedule) {
    case Schedule::automatic:
    case Schedule::karras:
    case Schedule::exponential:
    case Schedule::beta:
      layout = p.levels.flow() ? flow_layout(c, p.levels) : discrete_layout(c, p.levels);
      break;
    default:  // a schedule that diffusers does not have: k-diffusion's, at interpolated timesteps
      layout.sigmas = sigma_schedule(c.schedule, p.levels, c.steps, Convention::kdiffusion);
      for (double s : layout.sigmas) layout.times.push_back(p.levels.time(s));
      layout.times.pop_back();
  }
  std::vector<Leg> legs;
  const int n = static_cast<int>(layout.times.size());
  std::vector<Level> at;
  for (int i = 0; i <= n; ++i)
    at.push_back(
        p.level(static_cast<float>(layout.sigmas[i]), i < n ? layout.times[i] : p.levels.time(layout.sigmas[i])));
  for (int i = steps_left_out(c, n); i < n; ++i) legs.push_back({at[i], at[i], at[i + 1]});
  return legs;
}

// A1111 and ComfyUI: a list of sigmas, and the part of it that an image goes through.
Values sigmas_to_visit(const SamplerConfig& c, const Levels& levels) {
  const auto make = [&](int n) {
    return c.sigmas.empty() ? sigma_schedule(c.schedule, levels, n, c.convention) : c.sigmas;
  };
  if (!c.strength) return make(c.steps);
  if (*c.strength <= 0) return {};
  if (c.convention == Convention::comfyui) {
    if (*c.strength > 0.9999) return make(c.steps);
    Values all = make(static_cast<int>(std::min(c.steps / *c.strength, 100000.0)));
    const size_t keep = std::min<size_t>(c.steps + 1, all.size());
    return {all.end() - static_cast<std::ptrdiff_t>(keep), all.end()};
  }
  Values all = make(c.steps);
  const int skip = c.steps - static_cast<int>(std::min(*c.strength, 0.999) * c.steps) - 1;
  return {all.begin() + std::clamp(skip, 0, static_cast<int>(all.size()) - 2), all.end()};
}

void check(const SamplerConfig& c) {
  const auto need = [](bool ok, const std::string& text) {
    if (!ok) throw Error(Fault::request, text);
  };
  DANQING_CHECK(c.sampler != nullptr);
  need(c.steps >= 1 && c.steps <= std::min(kMaxSteps, c.training.count),
       "steps: " + std::to_string(c.steps) + " asked for, 1 to " +
           std::to_string(std::min(kMaxSteps, c.training.count)) + " are possible");
  need(!c.strength || (*c.strength >= 0 && *c.strength <= 1),
       "strength: " + (c.strength ? std::to_string(*c.strength) : "") + " asked for, it lies between 0 and 1");
  need(c.timesteps.empty() || c.sigmas.empty(), "timesteps and sigmas are both given; only one of them can be");
  need(c.timesteps.empty() || (c.convention == Convention::diffusers && c.training.prediction != Prediction::flow),
       "timesteps can be given for discrete models in the diffusers convention only; give sigmas");
  for (double t : c.timesteps)
    need(t >= 0 && t < c.training.count,
         "timesteps: " + std::to_string(t) + " is not in [0, " + std::to_string(c.training.count) + ")");
  need(c.sigmas.empty() || c.sigmas.size() >= 2,
       "sigmas: one value given; a step needs where it starts and where it ends");
  need(std::max(c.sigmas.size(), c.timesteps.size()) <= kMaxSteps + 1,
       "more than " + std::to_string(kMaxSteps) + " steps given");
  for (size_t i = 0; i < c.sigmas.size(); ++i) {
    const bool last = i + 1 == c.sigmas.size();
    need(std::isfinite(c.sigmas[i]) && (last ? c.sigmas[i] >= 0 : c.sigmas[i] > 0) &&
             (i == 0 || c.sigmas[i] <= c.sigmas[i - 1]),
         "sigmas: value " + std::to_string(i) + " is " + std::to_string(c.sigmas[i]) +
             "; they descend and only the last may be 0");
  }
  need(c.training.prediction != Prediction::flow || c.sigmas.empty() || c.sigmas.front() <= 1,
       "sigmas: " + (c.sigmas.empty() ? "" : std::to_string(c.sigmas.front())) + " is above 1, a flow model's largest");
  need(c.sigmas.empty() || c.sigmas.front() <= kMaxSigma,
       "sigmas: " + (c.sigmas.empty() ? "" : std::to_string(c.sigmas.front())) +
           " is above the largest that makes sense");
  need(c.training.prediction != Prediction::flow || !info(c.schedule).discrete_only,
       "schedule \"" + std::string(info(c.schedule).name) +
           "\" is made for SD 1.5 and SDXL; a flow model has no such levels");
  need(c.steps_offset >= 0 && c.steps_offset <= c.training.count,
       "steps_offset: " + std::to_string(c.steps_offset) + " asked for, 0 to the count of levels are possible");
  const double mu = c.dynamic_mu.value_or(1);
  need(mu <= 20 && (c.dynamic_linear ? mu > 0 : mu >= -20),
       "dynamic shift: mu is " + std::to_string(mu) + ", wanted -20 to 20, and more than 0 for the linear kind");
  need(std::isfinite(c.options.s_noise), "s_noise is not a finite number");
  const double eta = c.options.eta.value_or(0);
  need(eta >= 0 && eta <= 1, "eta: " + std::to_string(eta) + " asked for, it lies between 0 and 1");
  const int order = c.options.order.value_or(1);
  need(order >= 1 && order <= c.sampler->max_order, "order: " + std::to_string(order) + " asked for, " +
                                                        std::string(c.sampler->name) + " has 1 to " +
                                                        std::to_string(c.sampler->max_order));
}

Space space_of(const SamplerConfig& c) {
  if (c.convention == Convention::diffusers) return c.sampler->diffusers;
  // Solvers that add noise over a whole step need both signal and noise of a flow model right.
  if (c.training.prediction == Prediction::flow && c.sampler->stochastic) return c.sampler->diffusers;
  return c.sampler->elsewhere;
}

const SamplerConfig& checked(const SamplerConfig& c) {
  check(c);
  return c;
}

}  // namespace

RunPlan::RunPlan(const SamplerConfig& wanted)
    : config(checked(wanted)), levels(config.training, config.convention), space(space_of(config)) {
  if (!config.timesteps.empty()) config.steps = static_cast<int>(config.timesteps.size());
  if (!config.sigmas.empty()) config.steps = static_cast<int>(config.sigmas.size()) - 1;
  if (config.convention == Convention::diffusers) {
    legs = diffusers_legs(*this);
  } else {
    const Values sigmas = sigmas_to_visit(config, levels);
    std::vector<Level> at;
    for (double s : sigmas) at.push_back(level(static_cast<float>(s)));
    for (size_t i = 0; i + 1 < at.size(); ++i) legs.push_back({at[i], at[i], at[i + 1]});
  }
  if (legs.empty()) return;
  const Level& first = legs.front().from;
  start_scale = first.sigma;
  if (levels.flow()) {
    if (config.convention == Convention::diffusers) start_scale = 1;  // even where the first sigma is a little less
    return;
  }
  const double full = space == Space::share ? 1 : std::sqrt(1 + first.s * first.s);  // as if there were no image at all
  if (config.convention == Convention::comfyui && std::abs(first.s - levels.max()) < 1e-5 * levels.max())
    start_scale = full;
  if (config.convention == Convention::diffusers && (space == Space::share || config.spacing == Spacing::leading))
    start_scale = full;
}

Level RunPlan::level(double s) const {
  return level(s, config.convention == Convention::comfyui ? levels.nearest(s) : levels.time(s));
}

Level RunPlan::level(double s, double time) const {
  Level l{.time = time, .s = s, .sigma = s};
  const Prediction p = levels.training().prediction;
  if (p == Prediction::flow) {
    l.signal = 1 - s;
    if (space == Space::share) l.alpha = std::max(1 - s, 1e-6);  // keeps log(alpha / sigma) finite at pure noise
    l.image_out = -s;
    return l;
  }
  const double signal = 1 / std::sqrt(1 + s * s);  // of the network's own variables: signal^2 + (s signal)^2 = 1
  if (space == Space::share) {
    l.alpha = l.signal = signal;
    l.sigma = s * signal;
    l.image_x = p == Prediction::v ? signal : 1 / signal;
    l.image_out = p == Prediction::v ? -l.sigma : -s;
  } else {
    l.input_scale = signal;
    l.image_x = p == Prediction::v ? signal * signal : 1;
    l.image_out = p == Prediction::v ? -s * signal : -s;
  }
  return l;
}

}  // namespace danqing
