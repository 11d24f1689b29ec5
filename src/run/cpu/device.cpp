#include "run/cpu/device.h"

#include <sys/mman.h>

#include <cstring>

namespace danqing::cpu {

namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const Ways& ways) : ways_(ways) {}
  NodeFacts facts(const Graph& graph, const Node& node) const override {
    const std::unique_ptr<Kernel> kernel = make_kernel(graph, node, ways_);
    NodeFacts facts = kernel ? kernel->facts() : NodeFacts{};
    facts.packed.resize(node.in.size());
    for (size_t i = 0; i < node.in.size(); ++i)  // a weight that the kernel says nothing of is held as it is
      if (std::holds_alternative<Weight>(graph[node.in[i]].op) && facts.packed[i].value == 0)
        facts.packed[i] = size_of(graph[node.in[i]].type);
    return facts;
  }

 private:
  Ways ways_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const Ways& ways) : ways_(ways), backend_(ways) {}

  const Backend& backend() const override { return backend_; }
  std::unique_ptr<Kernel> kernel(const Graph& graph, const Node& node) const override { return make_kernel(graph, node, ways_); }
  void write(void* to, Bytes bytes, const std::function<void(std::span<std::byte>)>& fill) override {
    fill({static_cast<std::byte*>(to), static_cast<size_t>(bytes.value)});
  }
  void read(const void* from, std::span<std::byte> host) override { std::memcpy(host.data(), from, host.size()); }
  void finish() override {}

 protected:
  // Straight from the kernel and straight back, so that freed memory leaves the process. Touched at once, in large pages where
  // the system gives them, so that no step waits for a page and the process's size is what was planned.
  void* get_memory(Bytes bytes, const std::string& what) override {
    const auto size = static_cast<size_t>(bytes.value);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error(Fault::capacity, what + ": the system has no " + to_string(bytes) + " of memory left");
    madvise(memory, size, MADV_HUGEPAGE);
    if (madvise(memory, size, MADV_POPULATE_WRITE) != 0)  // before Linux 5.14
      for (size_t at = 0; at < size; at += 4096) static_cast<volatile char*>(memory)[at] = 0;
    return memory;
  }
  void free_memory(void* memory, Bytes bytes) override { munmap(memory, static_cast<size_t>(bytes.value)); }

 private:
  Ways ways_;
  CpuBackend backend_;
};

}  // namespace

std::unique_ptr<Device> make_device(const Ways& ways) { return std::make_unique<CpuDevice>(ways); }
std::unique_ptr<Backend> make_backend(const Ways& ways) { return std::make_unique<CpuBackend>(ways); }

}  // namespace danqing::cpu
