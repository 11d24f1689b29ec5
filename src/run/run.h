// Executes exactly what was planned: the planned weights, one arena and the I/O buffers are allocated when the plan
// says, and nothing else that grows with the work. One Run is one request; phases are begun and ended in order.
#pragma once

#include <chrono>

#include "plan/plan.h"
#include "run/device.h"
#include "run/trace.h"

namespace danqing {

// Gives a weight's parameter in checkpoint order and in `type`'s dtype; `block` is scratch for reading, of the load
// plan's size.
using WeightSource =
    std::function<void(const Weight&, const TensorType& type, std::span<std::byte> out, std::span<std::byte> block)>;

class Run {
 public:
  Run(Device&, const Program&, const Plan&, WeightSource);
  ~Run();

  // Loads what the phase is the first to need, allocates its buffers and prepares its kernels.
  void begin(const std::string& phase);
  // Runs the phase's graph once.
  void execute(const Counters& = {});
  // Frees what no later phase needs.
  void end();

  // Between begin and end: tensors by name. Sizes must be exact.
  void write(const std::string& name, std::span<const std::byte> host);
  void read(const std::string& name, std::span<std::byte> host);
  // A buffer of Program::host, in host memory.
  std::span<std::byte> host_buffer(const std::string& name);

  // Called while weights load, with the share done of the component's bytes (0..1).
  std::function<void(const std::string& component, double share)> on_load;

  // Called after every op of a phase, with the share done of its predicted seconds (0..1). May throw to stop.
  std::function<void(double share)> on_op;

  const Trace& trace() const { return trace_; }
  Seconds elapsed() const { return now(); }

 private:
  Seconds now() const;
  struct Prepared;  // a phase's kernels and addresses
  void load(const LoadPlan&);
  void load_phase(size_t phase, std::byte* weights, std::span<std::byte> staging, double& done, const LoadPlan&);
  void load_weight(const Kernel&, size_t input, const Node& weight, const Slot&, bool direct, std::byte* weights,
                   std::span<std::byte> staging, size_t block_size);
  void prepare(size_t phase);
  std::byte* address(const Slot&, size_t phase) const;
  size_t io_index(const std::string& name) const;
  void note(const std::string& what);

  Device& device_;
  const Program& program_;
  const Plan& plan_;
  WeightSource source_;
  Trace trace_;
  std::chrono::steady_clock::time_point start_;
  size_t current_ = 0;
  std::vector<Block> weights_;  // one a load of the plan
  std::vector<Block> io_;       // one a tensor of the plan
  Block arena_;
  std::unique_ptr<Prepared> prepared_;
  std::vector<std::vector<std::unique_ptr<Kernel>>> kernels_;  // one list a phase, made when its weights are loaded
};

}  // namespace danqing
