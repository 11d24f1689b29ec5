// The host's processor as a device.
#pragma once

#include "run/cpu/cpu.h"
#include "run/device.h"

namespace danqing::cpu {

std::unique_ptr<Device> make_device(const Ways&);

// Facts without a device: for pricing.
std::unique_ptr<Backend> make_backend(const Ways&);

}  // namespace danqing::cpu
