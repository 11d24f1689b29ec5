#include "run/cpu/onednn.h"

#include <omp.h>

#include "run/cpu/facts.h"
#include "run/cpu/simd.h"

namespace danqing::cpu {

void check_product_types(const Site& site) {
  DANQING_CHECK(site.is_weight[1]);
  require_type(site.in[0], {DType::f32, DType::bf16});
  require_type(site.in[1], {DType::f32, DType::f16, DType::bf16});
  for (size_t i = 2; i < site.in.size(); ++i)
    require_type(site.in[i], {site.is_weight[i] ? DType::f32 : site.node.type.dtype});
}

// Weights of half the activations' size stay so, at the price of tiles: twice the memory was not asked for.
bool suits_primitives(const Site& site) {
  const DType x = site.in[0].dtype;
  return site.ways.primitives && bytes_of(x, 1) == bytes_of(site.in[1].dtype, 1) &&
         (x == DType::f32 || site.ways.bf16_products);
}

Team::Team(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
Team::~Team() { omp_set_num_threads(before_); }

dnnl::memory::data_type onednn_type(DType type) {
  DANQING_CHECK(type == DType::f32 || type == DType::bf16);
  return type == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::primitive_attr attributes(Activation activation, Combine combine, const dnnl::memory::desc& extra) {
  using dnnl::algorithm;
  dnnl::post_ops ops;
  const auto eltwise = [&](algorithm kind, float alpha = 0) {
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(kind, alpha, 0.0f);
#else
    ops.append_eltwise(1.0f, kind, alpha, 0.0f);
#endif
  };
  switch (activation) {
    case Activation::none:
      break;
    case Activation::silu:
      eltwise(algorithm::eltwise_swish, 1.0f);
      break;
    case Activation::gelu:
      eltwise(algorithm::eltwise_gelu_erf);
      break;
    case Activation::gelu_tanh:
      eltwise(algorithm::eltwise_gelu_tanh);
      break;
    case Activation::quick_gelu:
      eltwise(algorithm::eltwise_swish, 1.702f);
      break;
    case Activation::tanh:
      eltwise(algorithm::eltwise_tanh);
      break;
  }
  if (combine != Combine::none)
    ops.append_binary(combine == Combine::add ? algorithm::binary_add : algorithm::binary_mul, extra);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(ops);
  return attr;
}

PrimitiveKernel::PrimitiveKernel(dnnl::engine engine, dnnl::primitive_desc description, dnnl::memory::desc plain,
                                 const Site& site, bool has_bias, bool has_activation)
    : engine_(std::move(engine)),
      description_(std::move(description)),
      plain_(std::move(plain)),
      packed_(plain_facts(site).packed),
      held_(site.in[1].dtype),
      wanted_(site.in[0].dtype),
      has_bias_(has_bias),
      has_extra_(site.in.size() > 2u + has_bias),
      extra_position_(has_activation ? 1 : 0),
      threads_(site.ways.threads) {
  packed_[1] = Bytes(static_cast<int64_t>(description_.query_md(dnnl::query::weights_md).get_size()));
}

NodeFacts PrimitiveKernel::facts() const {
  const size_t scratch = description_.query_md(dnnl::query::scratchpad_md).get_size();
  return {Bytes(static_cast<int64_t>(scratch)), packed_, false};
}

void PrimitiveKernel::pack(size_t input, std::span<const std::byte> plain, std::span<std::byte> packed) const {
  if (input != 1) return Kernel::pack(input, plain, packed);
  const int64_t count = static_cast<int64_t>(plain.size()) / bytes_of(held_, 1);
  DANQING_CHECK(plain_.get_size() == plain.size() && static_cast<size_t>(packed_[1].value) == packed.size());
  std::vector<std::byte> converted;
  if (held_ != wanted_) {
    std::vector<float> wide(static_cast<size_t>(count));
    to_f32(held_, plain.data(), wide.data(), count);
    converted.resize(plain.size());
    from_f32(wanted_, wide.data(), converted.data(), count);
    plain = converted;
  }
  dnnl::memory from(plain_, engine_, const_cast<std::byte*>(plain.data()));
  dnnl::memory to(description_.query_md(dnnl::query::weights_md), engine_, packed.data());
  dnnl::stream stream(engine_);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

void PrimitiveKernel::bind() {
  const auto memory = [&](dnnl::query what, int index = 0) {
    return dnnl::memory(description_.query_md(what, index), engine_, nullptr);
  };
  primitive_ = dnnl::primitive(description_);
  in_ = {memory(dnnl::query::src_md), memory(dnnl::query::weights_md)};
  arguments_ = {{DNNL_ARG_SRC, in_[0]}, {DNNL_ARG_WEIGHTS, in_[1]}};
  if (has_bias_) {
    in_.push_back(memory(dnnl::query::weights_md, 1));
    arguments_[DNNL_ARG_BIAS] = in_.back();
  }
  if (has_extra_) {
    in_.push_back(memory(dnnl::query::dst_md));
    arguments_[DNNL_ARG_ATTR_MULTIPLE_POST_OP(extra_position_) | DNNL_ARG_SRC_1] = in_.back();
  }
  arguments_[DNNL_ARG_DST] = out_ = memory(dnnl::query::dst_md);
  arguments_[DNNL_ARG_SCRATCHPAD] = scratch_ = memory(dnnl::query::scratchpad_md);
}

void PrimitiveKernel::run(const KernelArguments& a) {
  const Team team(threads_);
  if (!primitive_) bind();
  for (size_t i = 0; i < in_.size(); ++i) in_[i].set_data_handle(a.in[i].data);
  out_.set_data_handle(a.out.data);
  scratch_.set_data_handle(a.scratch);
  dnnl::stream stream(engine_);
  primitive_.execute(stream, arguments_);
  stream.wait();
}

}  // namespace danqing::cpu
