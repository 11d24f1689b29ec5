#include "hardware/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "hardware/fake_tree.h"
#include "hardware/meters.h"

namespace danqing {
namespace {

constexpr char kCpuInfo[] =
    "processor\t: 0\n"
    "vendor_id\t: GenuineIntel\n"
    "cpu family\t: 6\n"
    "model\t\t: 143\n"
    "model name\t: Intel(R) Xeon(R) Platinum 8480+\n"
    "flags\t\t: fpu avx avx2 fma avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 amx_bf16 amx_tile "
    "amx_int8\n\n";

FakeTree& with_host(FakeTree& tree) {
  tree.write("proc/cpuinfo", kCpuInfo);
  tree.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1 kB\nMemAvailable:    8388608 kB\n");
  tree.write("proc/self/status",
             "Name:\tx\nVmPeak:\t 9 kB\nVmSize:\t 1048576 kB\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n"
             "Cpus_allowed:\tff\nCpus_allowed_list:\t0-5,8,10-11\n");
  tree.write("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max address space         unlimited            unlimited            bytes     \n");
  return tree;
}

TEST(Host, ReadsTheProcessor) {
  FakeTree tree;
  const Host host = this_host(with_host(tree).roots());
  EXPECT_EQ(host.cpu, "Intel(R) Xeon(R) Platinum 8480+ (family 6 model 143)");
  EXPECT_TRUE(host.isa.avx2 && host.isa.avx512 && host.isa.avx512_bf16 && host.isa.vnni);
  EXPECT_TRUE(host.isa.amx_bf16 && host.isa.amx_int8 && host.isa.bf16_products() && host.isa.int8_products());
  EXPECT_FALSE(host.isa.sve);
  EXPECT_EQ(host.allowed, 9);
  EXPECT_EQ(host.threads, 9);
  EXPECT_EQ(host.total.value, int64_t{16} << 30);
  EXPECT_EQ(host.limit, host.total);
  EXPECT_EQ(host.limited_by, "memory of the machine");
  EXPECT_EQ(host.available.value, int64_t{8} << 30);
}

TEST(Host, OlderProcessorHasNoBf16) {
  FakeTree tree;
  with_host(tree).write("proc/cpuinfo", "model name\t: Old\nflags\t\t: fpu avx avx2 avx512_bf16x\n");
  const Host host = this_host(tree.roots());
  EXPECT_FALSE(host.isa.avx2);  // no fma
  EXPECT_FALSE(host.isa.avx512_bf16);
  EXPECT_FALSE(host.isa.bf16_products());
}

TEST(Host, Arm) {
  FakeTree tree;
  with_host(tree).write("proc/cpuinfo",
                        "processor\t: 0\nFeatures\t: fp asimd sve i8mm bf16\nCPU implementer\t: 0x41\n"
                        "CPU part\t: 0xd4f\n");
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.cpu, "arm64 0x41/0xd4f");
  EXPECT_TRUE(host.isa.sve && host.isa.bf16_products() && host.isa.int8_products());
}

TEST(Host, CgroupV2) {
  FakeTree tree;
  with_host(tree).write("proc/self/cgroup", "0::/user.slice/job\n");
  tree.write("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  tree.write("sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
  tree.write("sys/fs/cgroup/user.slice/memory.current", "3221225472\n");
  tree.write("sys/fs/cgroup/user.slice/memory.stat", "anon 5\nfile 9\ninactive_file 1073741824\n");
  tree.write("sys/fs/cgroup/user.slice/job/cpu.max", "250000 100000\n");
  tree.write("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.limit.value, int64_t{4} << 30);
  EXPECT_EQ(host.limited_by, "cgroup /user.slice");
  EXPECT_EQ(host.available.value, int64_t{2} << 30);  // 4 - (3 - 1 of file cache)
  EXPECT_EQ(host.threads, 2);
  EXPECT_EQ(host.allowed, 9);
}

TEST(Host, CgroupV1InAContainer) {  // the path is the host's and absent under the mount
  FakeTree tree;
  with_host(tree).write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.limit.value, int64_t{2} << 30);
  EXPECT_EQ(host.available.value, int64_t{1} << 30);
  EXPECT_EQ(host.threads, 1);  // half a thread is still one
}

TEST(Host, CgroupV1WithoutLimit) {
  FakeTree tree;
  with_host(tree).write("proc/self/cgroup", "4:memory:/\n5:cpu:/\n");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.limit, host.total);
  EXPECT_EQ(host.threads, 9);
}

TEST(Host, AddressSpaceLimit) {
  FakeTree tree;
  with_host(tree).write("proc/self/limits",
                        "Max address space         3221225472           unlimited            bytes\n");
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.limit.value, int64_t{3} << 30);
  EXPECT_EQ(host.limited_by, "RLIMIT_AS");
  EXPECT_EQ(host.available.value, int64_t{2} << 30);  // 1 GiB is taken
}

TEST(Host, EmptyTreeIsNoFailure) {
  FakeTree tree;
  const Host host = this_host(tree.roots());
  EXPECT_EQ(host.cpu, "unknown processor");
  EXPECT_EQ(host.threads, 1);
  EXPECT_EQ(host.total.value, 0);
  EXPECT_FALSE(reset_peak_memory(tree.roots()));
}

TEST(Host, TopologyOfASyntheticMachine) {
  const Topology t = topology("numa:2 l3:1(size=33554432) l2:4(size=524288) l1d:1(size=32768) core:1 pu:2");
  EXPECT_EQ(t.cores, 8);
  EXPECT_EQ(t.nodes, 2);
  EXPECT_EQ(t.caches.l1.value, 32768);
  EXPECT_EQ(t.caches.l2.value, 524288);
  EXPECT_EQ(t.caches.l3.value, 33554432);
}

TEST(Host, ThisOne) {
  const Host host = this_host();
  EXPECT_GE(host.threads, 1);
  EXPECT_GE(host.topology.cores, 1);
  EXPECT_GT(host.limit.value, 64 * kMiB);
  EXPECT_LE(host.available, host.total);
  EXPECT_GT(process_memory().now.value, kMiB);
}

TEST(Host, PeakIsResetToNow) {
  {
    std::vector<char> big(64 << 20, 1);
    EXPECT_GT(process_memory().peak.value, 64 * kMiB);
  }
  if (!reset_peak_memory()) GTEST_SKIP() << "the kernel does not allow /proc/self/clear_refs";
  const ProcessMemory after = process_memory();
  EXPECT_LT(after.peak.value - after.now.value, 16 * kMiB);
}

TEST(Meters, Readings) {
  FakeTree tree;
  with_host(tree).write("proc/self/stat", "12 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 1000 500 0 0 20\n");
  tree.write("proc/self/io", "rchar: 99\nread_bytes: 4096\nwrite_bytes: 1\n");
  tree.write("sys/class/hwmon/hwmon0/name", "nvme\n");
  tree.write("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
  tree.write("sys/class/hwmon/hwmon1/name", "k10temp\n");
  tree.write("sys/class/hwmon/hwmon1/temp1_input", "41500\n");
  tree.write("sys/class/hwmon/hwmon1/temp3_input", "52250\n");
  Meters meters(tree.roots());
  const double tick = 1.0 / double(::sysconf(_SC_CLK_TCK));
  const Reading first = meters.read(Seconds(10));
  EXPECT_DOUBLE_EQ(first.cpu.value, 1500 * tick);
  EXPECT_EQ(first.busy, 0);
  EXPECT_EQ(first.resident.value, 1024 * 1024);
  EXPECT_EQ(first.peak.value, 2048 * 1024);
  EXPECT_EQ(first.read.value, 4096);
  EXPECT_EQ(first.temperature, 52.25);
  tree.write("proc/self/stat", "12 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 1300 600 0 0 20\n");
  EXPECT_NEAR(meters.read(Seconds(12)).busy, 400 * tick / 2, 1e-9);
}

TEST(Meters, NothingThere) {
  FakeTree tree;
  Meters meters(tree.roots());
  const Reading r = meters.read(Seconds(1));
  EXPECT_EQ(r.resident.value, 0);
  EXPECT_FALSE(r.temperature);
}

}  // namespace
}  // namespace danqing
