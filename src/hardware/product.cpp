// Large products by oneDNN, for the units that only a library drives well (AVX512-BF16, VNNI, AMX). Versions 2 and 3
// describe a product differently: both are here.
#include <dnnl_version.h>

#include <algorithm>
#include <chrono>
#include <dnnl.hpp>

#include "hardware/peak.h"

namespace danqing::peak {
namespace {

dnnl::matmul::primitive_desc describe(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                      const dnnl::memory::desc& c, const dnnl::engine& engine) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double product_rate(bool int8, int size, double seconds) {
  using dnnl::memory;
  using Type = memory::data_type;
  try {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const memory::dims square = {size, size};
    // The layout of the weights is the library's choice, as it is in use.
    const memory::desc a(square, int8 ? Type::u8 : Type::bf16, memory::format_tag::ab);
    const memory::desc b(square, int8 ? Type::s8 : Type::bf16, memory::format_tag::any);
    const memory::desc c(square, int8 ? Type::s32 : Type::f32, memory::format_tag::ab);
    const auto description = describe(a, b, c, engine);
    memory left(a, engine), right(description.weights_desc(), engine), out(c, engine);
    for (const memory& m : {left, right}) {  // small numbers of either type: bf16 0x0101 is next to nothing, not NaN
      std::fill_n(static_cast<uint8_t*>(m.get_data_handle()), m.get_desc().get_size(), uint8_t{1});
    }
    const dnnl::matmul product(description);
    double best = 0;
    const double end = seconds_now() + seconds;
    do {
      const double start = seconds_now();
      product.execute(stream, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, out}});
      stream.wait();
      best = std::max(best, 2.0 * size * size * size / (seconds_now() - start));
    } while (seconds_now() < end);
    return best;
  } catch (const dnnl::error&) {
    return 0;
  }
}

}  // namespace danqing::peak
