#include "hardware/probe.h"

#include <fcntl.h>
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "hardware/peak.h"

namespace danqing {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds_of_thread() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Amounts a second over all threads, each by its own CPU time, which a busy machine does not lower: of the best run for
// arithmetic, of the middle run for memory, where a run that finds the others waiting is too fast.
struct Rate {
  double best = 0, middle = 0;
};

// work(thread, run) returns the amount done; all threads work at once, as they will in earnest.
template <class Work>
Rate measure(int threads, double seconds, Work work) {
  std::vector<double> rates;
  const double end = seconds_now() + seconds;
  while (rates.size() < 3 || seconds_now() < end) {
    const int run = int(rates.size());
    double rate = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : rate)
    for (int t = 0; t < threads; ++t) {
      const double before = cpu_seconds_of_thread();
      const double done = work(t, run);
      rate += done / std::max(1e-9, cpu_seconds_of_thread() - before);
    }
    rates.push_back(rate);
  }
  std::sort(rates.begin(), rates.end());
  return {rates.back(), rates[rates.size() / 2]};
}

double multiply_add_rate(int threads, double seconds) {
  constexpr int64_t kRounds = 200'000;
  return measure(threads, seconds,
                 [](int, int) {
                   float kept = 0;
                   const double flops = peak::multiply_adds(kRounds, kept);
                   return kept > 0 ? flops : 0;
                 })
      .best;
}

struct MemoryRates {
  Rate read, copy;  // bytes/s; a copied byte counts twice, once read and once written
};

// Runs walk through `size` bytes piece by piece, so a piece has left the caches when its turn comes again. Each thread
// has its own part, touched first by itself so that it lies in that thread's memory node.
MemoryRates memory_rates(int threads, Bytes size, double seconds) {
  constexpr size_t kPiece = size_t{4} << 20, kPieceWords = kPiece / 8;
  const size_t pieces = std::max<size_t>(2, size_t(size.value) / threads / kPiece);
  struct Free {
    void operator()(uint64_t* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  const std::unique_ptr<uint64_t[], Free> buffer(new (std::align_val_t(64)) uint64_t[kPieceWords * pieces * threads]);
  auto piece = [&](int t, size_t i) { return buffer.get() + (size_t(t) * pieces + i % pieces) * kPieceWords; };
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) std::memset(piece(t, 0), t + 1, kPiece * pieces);

  MemoryRates out;
  out.read = measure(threads, seconds / 2, [&](int t, int run) {
    return peak::sum_words(piece(t, size_t(run)), kPieceWords) ? double(kPiece) : 0;
  });
  out.copy = measure(threads, seconds / 2, [&](int t, int run) {
    uint64_t* words = piece(t, size_t(run));
    std::memcpy(words + kPieceWords / 2, words, kPiece / 2);
    return double(kPiece);
  });
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
  m.roofs.f32 = FlopsPerSecond(multiply_add_rate(m.threads, share));
  m.sources["roof_f32"] = "measured: multiply-adds in " + peak::instruction_set() + " registers" + with;
  const MemoryRates memory = memory_rates(m.threads, buffer_size(host, Bytes(256 * kMiB)), share);
  m.bandwidth = BytesPerSecond(memory.read.middle);
  m.sources["bandwidth"] =
      "measured: reading" + with + "; copying moves " + to_string(BytesPerSecond(memory.copy.middle));
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
  // Some milliseconds each, by CPU time: there is no waiting for a quiet moment.
  m.roofs.f32 = FlopsPerSecond(multiply_add_rate(m.threads, 0.01));
  m.sources["roof_f32"] = "estimate: multiply-adds for 10 ms; a probe would measure it";
  m.bandwidth = BytesPerSecond(memory_rates(m.threads, Bytes(16 * kMiB), 0.01).read.middle);
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
