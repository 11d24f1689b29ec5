#include "run/cpu/onednn.h"

namespace danqing::cpu {

std::unique_ptr<Kernel> make_primitive(const Linear& op, const Site& site) {
  using dnnl::memory;
  const Team team(site.ways.threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::dim rows = site.in[0].shape.rows(), depth = site.in[1].shape[1], columns = site.in[1].shape[0];
  const auto type = onednn_type(site.in[0].dtype);
  const memory::desc x({rows, depth}, type, memory::format_tag::ab), out({rows, columns}, type, memory::format_tag::ab);
  const memory::desc weight({depth, columns}, type, memory::format_tag::any);
  const memory::desc plain({depth, columns}, type, memory::format_tag::ba);  // [O, I] in memory
  const memory::desc bias =
      op.has_bias ? memory::desc({1, columns}, memory::data_type::f32, memory::format_tag::ab) : memory::desc();
  const dnnl::primitive_attr attr = attributes(op.activation, op.combine, out);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(engine, x, weight, bias, out, attr);
#else
  const dnnl::matmul::primitive_desc description({x, weight, bias, out}, attr, engine);
#endif
  return std::make_unique<PrimitiveKernel>(engine, description, plain, site, op.has_bias,
                                           op.activation != Activation::none);
}

}  // namespace danqing::cpu
