// A clock that nobody sets.
#pragma once
#include <chrono>

namespace ztc {

/// Seconds since some moment before the process began.
inline double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace ztc
