// Work in parts, each on a thread of its own, where no pool of threads is at hand.
#pragma once
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

} // namespace ztc
