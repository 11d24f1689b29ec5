#include "hardware/probe.h"

#include <fcntl.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "hardware/peak.h"

namespace danqing {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best of runs of `work` (which returns an amount) until the time is up, at least two.
template <class Work>
double best_rate(double seconds, Work work) {
  double best = 0;
  const double end = seconds_now() + seconds;
  for (int run = 0; run < 2 || seconds_now() < end; ++run) {
    const double start = seconds_now();
    const double amount = work();
    best = std::max(best, amount / std::max(1e-9, seconds_now() - start));
  }
  return best;
}

// All threads in the loop at once: clocks and shared units are then as in real work.
double multiply_add_rate(int threads, double seconds, int64_t rounds) {
  return best_rate(seconds, [&] {
    double flops = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : flops)
    for (int t = 0; t < threads; ++t) {
      float kept = 0;
      flops += peak::multiply_adds(rounds, kept);
      if (kept == 0) flops = 0;
    }
    return flops;
  });
}

struct MemoryRates {
  double read = 0, copy = 0;  // bytes/s; a copied byte counts twice, once read and once written
};

// Each thread its own part, touched first by itself so that it lies in that thread's memory node.
MemoryRates memory_rates(int threads, Bytes size, double seconds) {
  constexpr size_t kBlock = 512;  // words, as sum_words wants
  const size_t words = std::max<size_t>(kBlock, size_t(size.value) / 8 / threads / kBlock * kBlock);
  const size_t bytes = words * 8;
  struct Free {
    void operator()(uint64_t* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  // Left untouched here, so pages come from the thread that uses them.
  const std::unique_ptr<uint64_t[], Free> buffer(new (std::align_val_t(64)) uint64_t[words * threads]);
  auto part = [&](int t) { return buffer.get() + words * t; };
  auto on_all = [&](auto work) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) work(t);
    return double(bytes) * threads;
  };
  on_all([&](int t) { std::memset(part(t), t + 1, bytes); });
  std::vector<uint64_t> sums(size_t(threads) * 8);  // a cache line a thread
  MemoryRates out;
  out.read =
      best_rate(seconds / 2, [&] { return on_all([&](int t) { sums[t * 8] += peak::sum_words(part(t), words); }); });
  const size_t half = words / 2;
  out.copy =
      best_rate(seconds / 2, [&] { return on_all([&](int t) { std::memcpy(part(t) + half, part(t), half * 8); }); });
  // Something must depend on the sums, or the loops could go.
  uint64_t total = 0;
  for (uint64_t s : sums) total += s;
  if (total == 0) out.read = 0;
  return out;
}

// Four times the last cache at least, but no more than a quarter of the memory free.
Bytes buffer_size(const Host& host, Bytes least) {
  const Bytes wanted = std::max(least, host.topology.caches.l3 * 4);
  const Bytes room(std::max<int64_t>(host.available.value / 4, 8 * kMiB));
  return std::min(wanted, room);
}

Machine described(const Host& host, int threads) {
  Machine m;
  m.name = host.cpu;
  m.kind = Machine::Kind::cpu;
  m.memory = host.limit;
  m.sources["memory"] = host.limited_by;
  m.threads = threads > 0 ? threads : host.threads;
  m.cores = std::min(host.topology.cores, m.threads);
  m.caches = host.topology.caches;
  m.native_bf16 = host.isa.bf16_products();
  m.launch = Seconds(3e-6);
  m.sources["launch"] = "default: starting and joining the threads of one op takes some microseconds";
  m.efficiency = {0.7, 0.8, 0.6, 0.8};
  m.sources["efficiency"] = "default: not measured";
  m.sources["roof_f16"] = "none: the kernels have no f16 products on a CPU";
  m.sources["roof_f8"] = "none: the kernels have no f8 products on a CPU";
  if (!host.isa.bf16_products()) m.sources["roof_bf16"] = "none: the processor has no bf16 products";
  if (!host.isa.int8_products()) m.sources["roof_int8"] = "none: the processor has no int8 dot products";
  return m;
}

void measure_disk(Machine& m, const std::string& path) {
  if (!path.empty()) m.disk = disk_read_rate(path);
  m.sources["disk"] = m.disk.value > 0 ? "measured: sequential read of " + path + " past the page cache"
                      : path.empty()   ? "unknown: not measured"
                                       : "unknown: no file of at least 1 MiB could be read at " + path;
}

}  // namespace

Machine probe(const Host& host, const ProbeOptions& options) {
  Machine m = described(host, options.threads);
  const std::string with = " with " + std::to_string(m.threads) + " threads";
  const double share = options.seconds / (2 + host.isa.bf16_products() + host.isa.int8_products());
  m.roofs.f32 = FlopsPerSecond(multiply_add_rate(m.threads, share, 2'000'000));
  m.sources["roof_f32"] = "measured: multiply-adds in " + peak::instruction_set() + " registers" + with;
  const MemoryRates memory = memory_rates(m.threads, buffer_size(host, Bytes(256 * kMiB)), share);
  m.bandwidth = BytesPerSecond(memory.read);
  m.sources["bandwidth"] = "measured: reading" + with + "; copying moves " + to_string(BytesPerSecond(memory.copy));
  constexpr int kSize = 2048;  // rows and columns of the products
  // oneDNN takes the thread count of OpenMP.
  const int before = omp_get_max_threads();
  omp_set_num_threads(m.threads);
  if (host.isa.bf16_products()) {
    m.roofs.bf16 = FlopsPerSecond(peak::product_rate(false, kSize, share));
    m.sources["roof_bf16"] = "measured: best product of 2048 x 2048 by oneDNN" + with;
  }
  if (host.isa.int8_products()) {
    m.roofs.int8 = FlopsPerSecond(peak::product_rate(true, kSize, share));
    m.sources["roof_int8"] = "measured: best product of 2048 x 2048 by oneDNN" + with;
  }
  omp_set_num_threads(before);
  measure_disk(m, options.disk_path);
  return m;
}

Machine estimate(const Host& host, int threads) {
  Machine m = described(host, threads);
  // Some milliseconds each; a cold clock makes them low rather than high.
  m.roofs.f32 = FlopsPerSecond(multiply_add_rate(m.threads, 0.01, 100'000));
  m.sources["roof_f32"] = "estimate: multiply-adds for 10 ms; a probe would measure it";
  m.bandwidth = BytesPerSecond(memory_rates(m.threads, Bytes(16 * kMiB), 0.01).read);
  m.sources["bandwidth"] = "estimate: reading 16 MiB, partly from the caches; a probe would measure it";
  const std::string guess = "estimate: a multiple of f32; a probe would measure it";
  const Isa& isa = host.isa;
  if (isa.bf16_products()) {
    m.roofs.bf16 = FlopsPerSecond(m.roofs.f32.value * (isa.amx_bf16 ? 8 : 2));
    m.sources["roof_bf16"] = guess;
  }
  if (isa.int8_products()) {
    m.roofs.int8 = FlopsPerSecond(m.roofs.f32.value * (isa.amx_int8 ? 16 : 3));
    m.sources["roof_int8"] = guess;
  }
  m.disk = BytesPerSecond(1e9);
  m.sources["disk"] = "default: a modest SSD; not measured";
  return m;
}

BytesPerSecond disk_read_rate(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string largest = path;
  if (fs::is_directory(path, error)) {
    uintmax_t most = 0;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      std::error_code skip;
      const uintmax_t size = it->is_regular_file(skip) ? it->file_size(skip) : 0;
      if (skip || size <= most) continue;
      most = size;
      largest = it->path().string();
    }
  }
  try {
    const File file = File::open(largest);
    constexpr uint64_t kMost = 512 << 20, kPiece = 4 << 20;
    const uint64_t size = std::min<uint64_t>(file.size(), kMost);
    if (size < uint64_t(kMiB)) return {};
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
    std::vector<std::byte> piece(kPiece);
    const double start = seconds_now();
    for (uint64_t at = 0; at < size; at += kPiece) {
      file.read_at(at, std::span(piece).first(size_t(std::min(kPiece, size - at))));
    }
    const double taken = seconds_now() - start;
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    return BytesPerSecond(double(size) / std::max(1e-9, taken));
  } catch (const Error&) {
    return {};  // a disk that cannot be measured is unknown, not a failure
  }
}

Machine machine_here(const Host& host, int threads, const std::string& cache_path, const Note& note) {
  if (auto measured = load_machine(cache_path, host, threads, note)) return *measured;
  if (note) note("this machine has not been measured: its rates are estimates");
  return estimate(host, threads);
}

}  // namespace danqing
