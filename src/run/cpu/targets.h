// Include before any Highway header: which instruction sets the kernels are compiled for. Highway 1.0.3 with GCC 12 on
// x86-64 then gives SCALAR, SSE4, AVX2 and AVX3 (AVX-512), chosen while running.
#pragma once

// Vectors without a size known to the compiler cannot lie in arrays (register tiles); NEON serves arm64. SSSE3 alone is
// rarer than it is worth.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/targets.h>
