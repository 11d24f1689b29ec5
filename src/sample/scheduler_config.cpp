#include "sample/scheduler_config.h"

#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"

namespace danqing {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  Reader(const Json& json, const std::string& where) : json_(json), where_(where) {}
  template <class T>
  T get(const char* key, T otherwise) const {
    const auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return otherwise;
    try {
      if constexpr (std::is_same_v<T, int>)
        return it->is_number_integer() ? static_cast<int>(it->get<int64_t>()) : wrong_type(key, *it);
      return it->get<T>();
    } catch (const Json::exception&) {
      wrong_type(key, *it);
    }
  }
  // One of the words; anything else is refused rather than replaced.
  int word(const char* key, int otherwise, std::initializer_list<const char*> words) const {
    const std::string value = get<std::string>(key, *(words.begin() + otherwise));
    std::string known;
    for (auto it = words.begin(); it != words.end(); ++it) {
      if (value == *it) return static_cast<int>(it - words.begin());
      known += (known.empty() ? "" : ", ") + std::string(*it);
    }
    throw Error(Fault::request, where_ + ": \"" + key + "\" is \"" + value.substr(0, 80) + "\"; danqing has " + known);
  }

  // A setting that changes the picture and that danqing does not have.
  void refuse(const char* key, bool present) const {
    if (present) throw Error(Fault::request, where_ + ": \"" + key + "\" is set; danqing does not have it");
  }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

 private:
  [[noreturn]] int wrong_type(const char* key, const Json& value) const {
    throw Error(Fault::file,
                where_ + ": \"" + key + "\" is " + value.dump().substr(0, 80) + ", a value of another type");
  }
  const Json& json_;
  const std::string& where_;
};

Training training(const Reader& r, bool flow) {
  Training t;
  t.count = r.get("num_train_timesteps", 1000);
  t.beta_start = r.get("beta_start", 0.0001);  // the classes' own defaults
  t.beta_end = r.get("beta_end", 0.02);
  t.scaled_linear = r.word("beta_schedule", 0, {"linear", "scaled_linear"}) == 1;
  t.zero_terminal_snr = r.get("rescale_betas_zero_snr", false);
  t.prediction =
      static_cast<Prediction>(r.word("prediction_type", flow ? 2 : 0, {"epsilon", "v_prediction", "flow_prediction"}));
  t.shift = r.get("shift", r.get("flow_shift", 1.0));
  return t;
}

}  // namespace

SamplerConfig scheduler_config(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(Fault::file, where + ": not a JSON object");
  const Reader r(json, where);
  const std::string name = r.get<std::string>("_class_name", "PNDMScheduler");
  r.refuse("thresholding", r.get("thresholding", false));
  r.refuse("trained_betas", r.has("trained_betas"));
  r.refuse("invert_sigmas", r.get("invert_sigmas", false));
  r.refuse("shift_terminal", r.has("shift_terminal"));
  r.refuse("clip_sample", name == "DDIMScheduler" && r.get("clip_sample", false));
  const bool flow = name.starts_with("FlowMatch") || r.get("use_flow_sigmas", false);
  SamplerConfig c;
  c.convention = Convention::diffusers;
  c.sampler = sampler_named(r.get("stochastic_sampling", false) ? "lcm" : name).sampler;
  const int sde = r.word("algorithm_type", 0, {"dpmsolver++", "sde-dpmsolver++", "deis"});
  if (sde == 1) c.sampler = sampler_named("dpmpp_2m_sde").sampler;
  c.training = training(r, flow);
  const int old = name == "LMSDiscreteScheduler" || name.starts_with("DPMSolver") || name.starts_with("UniPC") ||
                          name.starts_with("DEIS") || name == "HeunDiscreteScheduler"
                      ? 2
                      : 0;
  c.spacing = static_cast<Spacing>(r.word("timestep_spacing", old, {"leading", "trailing", "linspace"}));
  c.steps_offset = r.get("steps_offset", 0);
  c.final_alpha_one = r.get("set_alpha_to_one", name == "DDIMScheduler");
  const int end = r.word("final_sigmas_type", 0, {"zero", "sigma_min"});
  if (end == 1) c.end_at_min = true;
  c.lu_lambdas = r.get("use_lu_lambdas", false);
  if (r.get("use_karras_sigmas", false)) c.schedule = Schedule::karras;
  if (r.get("use_exponential_sigmas", false)) c.schedule = Schedule::exponential;
  if (r.get("use_beta_sigmas", false)) c.schedule = Schedule::beta;
  c.dynamic_linear = r.word("time_shift_type", 0, {"exponential", "linear"}) == 1;
  if (r.get("solver_order", 0) > 0) c.options.order = r.get("solver_order", 2);
  if (name.starts_with("DPMSolver")) c.options.heun = r.word("solver_type", 0, {"midpoint", "heun"}) == 1;
  if (name.starts_with("UniPC")) c.options.bh1 = r.word("solver_type", 0, {"bh2", "bh1"}) == 1;
  c.options.euler_at_final = r.get("euler_at_final", false);
  c.options.lower_order_final = r.get("lower_order_final", true);
  return c;
}

}  // namespace danqing
