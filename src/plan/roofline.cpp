#include "plan/roofline.h"

#include <algorithm>

namespace danqing {

std::string_view name(Bound b) {
  static constexpr std::string_view names[] = {"compute", "bandwidth", "overhead", "disk"};
  return names[static_cast<size_t>(b)];
}

Cost& Cost::operator+=(const Cost& o) {
  seconds += o.seconds;
  for (size_t i = 0; i < by_bound.size(); ++i) by_bound[i] += o.by_bound[i];
  bound = static_cast<Bound>(std::ranges::max_element(by_bound) - by_bound.begin());
  return *this;
}

Cost operator*(Cost cost, double times) {
  cost.seconds.value *= times;
  for (double& seconds : cost.by_bound) seconds *= times;
  return cost;
}

OpKind kind_of(const Op& op) {
  if (std::holds_alternative<Conv2d>(op)) return OpKind::convolution;
  if (std::holds_alternative<Linear>(op)) return OpKind::linear;
  if (std::holds_alternative<Attention>(op)) return OpKind::attention;
  return OpKind::memory;
}

std::string_view name(OpKind k) {
  static constexpr std::string_view names[] = {"convolution", "linear", "attention", "memory"};
  return names[static_cast<size_t>(k)];
}

// Vector arithmetic (exponentials, norms) against the f32 product peak: no fused multiply-adds, half the ports.
static constexpr double kVectorShare = 0.25;

static double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

Cost cost_of(const Op& op, const Work& work, DType activations, const Machine& machine) {
  Cost cost;
  const double bytes = static_cast<double>((work.read + work.written).value);
  if (bytes == 0) return cost;
  const Efficiency& e = machine.efficiency;
  const double shares[] = {e.convolution, e.linear, e.attention, 1};
  const double compute =
      work.products.value > 0
          ? over(work.products.value, roof(machine, activations).value * shares[static_cast<size_t>(kind_of(op))])
          : over(work.vector.value, machine.roofs.f32.value * kVectorShare);
  const double bandwidth = over(bytes, machine.bandwidth.value * e.memory_bound);
  const double slowest = std::max(compute, bandwidth);
  cost.seconds = Seconds(slowest + machine.launch.value);
  cost.bound = slowest < machine.launch.value ? Bound::overhead
               : compute >= bandwidth         ? Bound::compute
                                              : Bound::bandwidth;
  cost.by_bound[static_cast<size_t>(cost.bound)] = cost.seconds.value;
  return cost;
}

Cost load_cost(Bytes file, Bytes held, const Machine& machine) {
  Cost cost;
  const double read = over(static_cast<double>(file.value), machine.disk.value);
  // A page is cleared; a value is read, widened, written plain, read again and written as the kernels want it: as
  // measured on full-size models, as long as moving each byte twelve times.
  const double rearrange = over(12 * static_cast<double>(held.value), machine.bandwidth.value);
  cost.seconds = Seconds(read + rearrange);
  cost.bound = read >= rearrange ? Bound::disk : Bound::bandwidth;
  cost.by_bound[static_cast<size_t>(cost.bound)] = cost.seconds.value;
  return cost;
}

}  // namespace danqing
