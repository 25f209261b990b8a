// Free memory: the machine's, and what the limits of control groups leave of it.
#include "runtime/Core/HostMemory.h"
#include "Scratch.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace ztc;
using namespace ztc::test;

namespace {

/// A machine made of files.
struct Machine {
  Scratch scratch;
  void file(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(scratch.path(path)).parent_path());
    scratch.write(path, text);
  }
  uint64_t available() const { return availableMemoryBytes(scratch.path()); }
};

TEST(HostMemory, ThisMachineHasSome) {
  EXPECT_GT(availableMemoryBytes(), uint64_t(1) << 20);
  EXPECT_LT(availableMemoryBytes(), uint64_t(1) << 60);
}

TEST(HostMemory, NothingKnown) {
  EXPECT_EQ(Machine().available(), UINT64_MAX);
}

TEST(HostMemory, WithoutLimits) {
  Machine machine;
  machine.file("proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:    1000 kB\n");
  EXPECT_EQ(machine.available(), 1000u << 10);
  machine.file("proc/self/cgroup", "0::/\n");
  machine.file("sys/fs/cgroup/memory.max", "max\n");
  machine.file("sys/fs/cgroup/memory.current", "5\n");
  EXPECT_EQ(machine.available(), 1000u << 10);
}

TEST(HostMemory, TheTightestGroupAbove) {
  Machine machine;
  machine.file("proc/meminfo", "MemAvailable: 1000000 kB\n");
  machine.file("proc/self/cgroup", "0::/job/step\n");
  machine.file("sys/fs/cgroup/job/step/memory.max", "max\n");
  machine.file("sys/fs/cgroup/job/step/memory.current", "1000\n");
  machine.file("sys/fs/cgroup/job/memory.max", "100000\n");
  machine.file("sys/fs/cgroup/job/memory.current", "70000\n");
  EXPECT_EQ(machine.available(), 30000u);
  machine.file("sys/fs/cgroup/job/memory.stat", "anon 1\nactive_file 3\ninactive_file 20000\n");
  EXPECT_EQ(machine.available(), 50000u) << "pages of files that can be dropped are free";
  machine.file("sys/fs/cgroup/job/memory.current", "170000\n");
  EXPECT_EQ(machine.available(), 0u);
}

TEST(HostMemory, VersionOne) {
  Machine machine;
  machine.file("proc/meminfo", "MemAvailable: 1000000 kB\n");
  machine.file("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/box\n0::/\n");
  machine.file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "5000\n");
  machine.file("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(machine.available(), 3000u);
}

/// A process whose soft limit is 4096 bytes.
struct LowLimit {
  rlimit before{};
  LowLimit() {
    getrlimit(RLIMIT_MEMLOCK, &before);
    const rlimit low{4096, before.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &low);
  }
  ~LowLimit() { setrlimit(RLIMIT_MEMLOCK, &before); }
};

TEST(HostMemory, WhatMayBeLocked) {
  Machine machine;
  const LowLimit low;
  machine.file("proc/self/status", "Name:\tztc-run\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n");
  EXPECT_EQ(lockableMemoryBytes(machine.scratch.path()), 4096u);
  machine.file("proc/self/status", "Name:\tztc-run\nCapEff:\t0000000000004000\n");
  EXPECT_EQ(lockableMemoryBytes(machine.scratch.path()), UINT64_MAX) << "with CAP_IPC_LOCK no limit holds";
  EXPECT_EQ(lockableMemoryBytes(Machine().scratch.path()), 4096u) << "nothing known of the process";
}

} // namespace
