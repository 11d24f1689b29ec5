// The noise levels a model was trained on, and the conversions between a level's sigma and its timestep.
// "sigma" of a discrete model (SD 1.5, SDXL) is the noise-to-signal ratio sqrt((1 - a) / a), a = product of (1 - beta);
// of a flow model the share of noise in x = (1 - sigma) image + sigma noise, and its timestep is 1000 sigma.
#pragma once

#include <span>
#include <vector>

namespace danqing {

enum class Prediction { epsilon, v, flow };                // what the network's output is
enum class Convention { kdiffusion, comfyui, diffusers };  // whose rules: A1111 = kdiffusion

// Facts of the training, as a scheduler's configuration states them.
struct Training {
  Prediction prediction = Prediction::epsilon;
  int count = 1000;  // levels
  double beta_start = 0.00085, beta_end = 0.012;
  bool scaled_linear = true;       // sqrt(beta) is linear; otherwise beta is
  bool zero_terminal_snr = false;  // rescale so that the last level is pure noise (arXiv 2305.08891)
  double shift = 1;                // flow: sigma = shift t / (1 + (shift - 1) t)
};

inline constexpr double kMaxSigma = 8192;  // zero terminal SNR ends at 4096

double shifted(double sigma, double shift);  // flow shift

class Levels {
 public:
  // The three programs round the table differently (up to 1.3e-5 relative): ComfyUI in double, rounded once; A1111
  // takes the root of a rounded product; diffusers computes all in float. Throws Error(request) for impossible numbers.
  Levels(const Training&, Convention);

  const Training& training() const { return training_; }
  bool flow() const { return training_.prediction == Prediction::flow; }
  std::span<const double> sigmas() const { return sigmas_; }  // ascending
  double min() const { return sigmas_.front(); }
  double max() const { return sigmas_.back(); }

  double time(double sigma) const;         // fractional timestep, linear in log sigma, held at the ends (k-diffusion)
  double nearest(double sigma) const;      // index of the nearest log sigma (ComfyUI)
  double sigma(double time) const;         // inverse of `time`
  double sigma_linear(double time) const;  // linear in sigma (diffusers)

 private:
  Training training_;
  std::vector<double> sigmas_, logs_;
};

}  // namespace danqing
