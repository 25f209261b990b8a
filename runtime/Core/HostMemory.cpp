#include "runtime/Core/HostMemory.h"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <sys/resource.h>

namespace ztc {
namespace {

/// A file of /proc or /sys (whose size is said to be 0); empty where there is none.
std::string readText(const std::string &path) {
  std::string text;
  if (std::FILE *file = std::fopen(path.c_str(), "re")) {
    char buffer[4096];
    while (size_t count = std::fread(buffer, 1, sizeof buffer, file))
      text.append(buffer, count);
    std::fclose(file);
  }
  return text;
}

/// The number after `key` at the start of a line; key "" is the start of the text.
std::optional<uint64_t> numberAfter(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key))
      continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    uint64_t value = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc())
      return value;
  }
  return std::nullopt;
}

/// Names of a version of control groups: where its tree is mounted, and its files.
struct GroupFiles {
  const char *mount, *limit, *usage, *droppable;
};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/// What is left under the limits of a group and of all groups above it. A limit that is not a number ("max") is none.
uint64_t leftInGroup(const std::string &root, const GroupFiles &files, std::string group) {
  uint64_t left = UINT64_MAX;
  for (bool more = true; more;) {
    const std::string folder = root + files.mount + group + "/";
    const std::optional<uint64_t> limit = numberAfter(readText(folder + files.limit), ""),
                                  usage = numberAfter(readText(folder + files.usage), "");
    if (limit && usage) {
      const uint64_t droppable = numberAfter(readText(folder + "memory.stat"), files.droppable).value_or(0);
      const uint64_t held = *usage - std::min(*usage, droppable);
      left = std::min(left, *limit - std::min(*limit, held));
    }
    more = !group.empty();
    group.resize(group.empty() ? 0 : group.rfind('/'));
  }
  return left;
}

constexpr unsigned kIpcLock = 14; ///< CAP_IPC_LOCK: its bit among the capabilities

} // namespace

uint64_t lockableMemoryBytes(const std::string &root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  // A line "CapEff:\t000001ffffffffff".
  const std::string status = readText(root + "/proc/self/status");
  constexpr std::string_view kKey = "\nCapEff:\t";
  uint64_t capabilities = 0;
  if (const size_t place = status.find(kKey); place != std::string::npos) {
    const char *const digits = status.data() + place + kKey.size();
    std::from_chars(digits, status.data() + status.size(), capabilities, 16);
  }
  return capabilities >> kIpcLock & 1 ? UINT64_MAX : uint64_t(limit.rlim_cur);
}

uint64_t availableMemoryBytes(const std::string &root) {
  uint64_t bytes = UINT64_MAX;
  if (const auto kibibytes = numberAfter(readText(root + "/proc/meminfo"), "MemAvailable:"))
    bytes = *kibibytes << 10;
  // Lines "4:memory:/job/step" (version 1) and "0::/job/step" (version 2).
  const std::string groups = readText(root + "/proc/self/cgroup");
  for (std::string_view text = groups; !text.empty();) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos)
      continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string group(line.substr(second + 1));
    if (group == "/")
      group.clear();
    if (controllers.empty())
      bytes = std::min(bytes, leftInGroup(root, kVersion2, group));
    else if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos)
      bytes = std::min(bytes, leftInGroup(root, kVersion1, group));
  }
  return bytes;
}

} // namespace ztc
