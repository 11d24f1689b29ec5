// What a checkpoint is: family, sizes, where its parameters stand. Reads headers and config files only.
#pragma once

#include "model/config.h"
#include "model/layout.h"

namespace danqing {

enum class Family : uint8_t { sd1, sdxl };
std::string_view name(Family);

// What a family's pictures are usually made with; a file's own metadata (`danqing.defaults`) may say otherwise.
struct Defaults {
  int width = 512, height = 512, steps = 20;
  double guidance = 7;
  std::string sampler = "dpmpp_2m", schedule = "karras";
};

struct Model {
  Family family = Family::sd1;
  std::string title;              // for people: from the metadata, else the file's name
  std::string description;        // what it can draw, where the file says so
  std::vector<TextEncoder> text;  // their states stand side by side in the denoiser's context
  UnetConfig unet;
  VaeConfig vae;
  Parametrisation prediction = Parametrisation::epsilon;
  bool zero_terminal_snr = false;
  std::string scheduler;  // scheduler_config.json of a folder or the file's own, else empty
  Defaults defaults;
  bool zeros_without_negative =
      false;                     // its reference pipeline guides away from zeros where no negative prompt is given
  int64_t pooled_width() const;  // of the pooled output among the added conditioning; 0: none
  bool inpainting() const { return unet.in_channels == 2 * vae.latent_channels + 1; }
  bool has_encoder = true;  // the VAE can encode pictures (image to image)
  Layout layout;

  explicit Model(const Checkpoint& checkpoint) : layout(checkpoint) {}
};

// Throws Error(Fault::file) that says what the file seems to be instead. The checkpoint must outlive the model.
Model identify(const Checkpoint&);

}  // namespace danqing
