// Paints a prepared job: runs its plan phase by phase and hands out the pictures.
#pragma once

#include <atomic>

#include "image/image.h"
#include "pipeline/job.h"
#include "run/run.h"

namespace danqing {

struct Progress {
  std::string phase;  // load unet, encode, denoise, decode
  int64_t step = 0, total = 0;
  double share = 0;  // of the whole request, 0..1, by predicted seconds
  Seconds left;      // prediction, corrected by what has been measured so far
  Bytes allocated;
};

struct PaintHooks {
  std::function<void(const Progress&)> progress;
  // Takes each picture as soon as it is decoded, so that none is lost with a later one; else all come with the result.
  std::function<void(int64_t index, const Image&)> picture;
  const std::atomic<bool>* cancel = nullptr;  // set: the job stops within one evaluation with Error(cancelled)
  // For tests and research: the latents [image, channel, y, x] of one batch after each step.
  std::function<void(int step, std::span<const float> latents)> after_step;
};

struct Painting {
  std::vector<Image> images;  // in order of seeds, unless the hook took them
  Trace trace;
};

// Throws Error(numeric) naming phase and step when a value is not finite, Error(cancelled), Error(capacity).
Painting paint(const Job&, Device&, const PaintHooks& = {});

}  // namespace danqing
