#include <dnnl.h>
#include <omp.h>

#include "run/cpu/cpu.h"

namespace danqing::cpu {

// The instruction set is asked of oneDNN, so that its own limits (DNNL_MAX_CPU_ISA) hold for the choice of ways too.
Ways detect(int threads) {
#if defined(__x86_64__)
  // The values are sets of bits: each instruction set holds the bits of those it builds on.
  const auto has = [isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa())](dnnl_cpu_isa_t wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    return isa != dnnl_cpu_isa_all && (isa & bits) == bits;
  };
#else
  const auto has = [](dnnl_cpu_isa_t) { return false; };
#endif
  Ways ways;
  ways.primitives = has(dnnl_cpu_isa_avx512_core);
  ways.bf16_products = has(dnnl_cpu_isa_avx512_core_bf16);
  ways.threads = threads > 0 ? threads : omp_get_num_procs();  // those of the process's affinity
  return ways;
}

}  // namespace danqing::cpu
