// Work in parts, each on a thread of its own, where no pool of threads is at hand.
#pragma once
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace ztc {

/// Calls body(0) to body(parts - 1), the first of them here, and returns when all have returned.
template <typename Body> void runParts(uint64_t parts, const Body &body) {
  std::vector<std::jthread> others; // they are waited for at the end, also where one more cannot be started
  for (uint64_t part = 1; part < parts; ++part)
    others.emplace_back([&body, part] { body(part); });
  body(0);
}

/// body(from, to) over stretches of [0, count), at most one for each of `threads` and none of less than `least`, but
/// for the only one.
template <typename Body> void runStretches(uint64_t count, uint64_t least, uint32_t threads, const Body &body) {
  const uint64_t parts = std::clamp<uint64_t>(count / least, 1, std::max(1u, threads));
  runParts(parts,
           [&](uint64_t part) { body(count / parts * part, part + 1 == parts ? count : count / parts * (part + 1)); });
}

} // namespace ztc
