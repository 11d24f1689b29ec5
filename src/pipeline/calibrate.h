// The probe completed by what only the kernels know: the share of its roofs that each kind of op reaches here.
#pragma once

#include "hardware/host.h"
#include "hardware/machine.h"

namespace danqing {

// Measures the machine, then convolution, linear, attention and norm on sizes as they occur in a U-Net and a VAE at
// 512x512. About 15 seconds. `disk`: a file or folder to read; empty: the models that come with danqing.
Machine probe_and_calibrate(const Host&, int threads, const std::string& disk);

}  // namespace danqing
