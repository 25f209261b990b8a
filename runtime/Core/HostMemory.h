// How much memory this machine still has for this process.
#pragma once
#include <cstdint>
#include <string>

namespace ztc {

/// Memory that can be had without swapping, in bytes: what the machine has left, or less where a control group (a
/// container, a Slurm job) sets a limit, on this process' own level or any above. File pages that a group may drop
/// count as free. UINT64_MAX where the system does not say. `root` stands before /proc and /sys: for tests.
uint64_t availableMemoryBytes(const std::string &root = "");

/// What this process may lock in memory (RLIMIT_MEMLOCK), in bytes; UINT64_MAX where it may lock all, by its limit or
/// by the capability CAP_IPC_LOCK. `root` as above.
uint64_t lockableMemoryBytes(const std::string &root = "");

} // namespace ztc
