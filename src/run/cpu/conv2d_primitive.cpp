#include "run/cpu/onednn.h"

namespace danqing::cpu {

std::unique_ptr<Kernel> make_primitive(const Conv2d& op, const Site& site) {
  using dnnl::memory;
  const Team team(site.ways.threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto type = onednn_type(site.in[0].dtype);
  const auto picture = [&](const Shape& s) {  // oneDNN names sizes N, C, H, W whatever the layout
    return memory::desc({s[0], s[3], s[1], s[2]}, type, memory::format_tag::nhwc);
  };
  const Shape& w = site.in[1].shape;
  const memory::dims sizes{w[0], w[1], w[2], w[3]}, strides{op.stride, op.stride}, pad{op.pad, op.pad};
  const memory::dims pad_end{op.pad_end, op.pad_end};
  const memory::desc x = picture(site.in[0].shape), out = picture(site.node.type.shape);
  const memory::desc weight(sizes, type, memory::format_tag::any), plain(sizes, type, memory::format_tag::oihw);
  const memory::desc bias =
      op.has_bias ? memory::desc({w[0]}, memory::data_type::f32, memory::format_tag::x) : memory::desc();
  const dnnl::primitive_attr attr = attributes(op.activation, op.residual ? Combine::add : Combine::none, out);
  constexpr auto kInference = dnnl::prop_kind::forward_inference;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc description(engine, kInference, kDirect, x, weight, bias, out,
                                                              strides, pad, pad_end, attr);
#else
  const dnnl::convolution_forward::primitive_desc description(
      {kInference, kDirect, x, weight, bias, out, strides, pad, pad_end}, attr, engine);
#endif
  return std::make_unique<PrimitiveKernel>(engine, description, plain, site, op.has_bias,
                                           op.activation != Activation::none);
}

}  // namespace danqing::cpu
