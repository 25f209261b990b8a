// Named spans of time for a profiler that listens (NVTX: Nsight Systems and others).
#pragma once
#include <cstdint>

namespace ztc {

/// A range of the thread it lives in; it lies within those that were begun before it. `name` is copied. Where no
/// profiler has put itself into this process, or ztc was built without NVTX's headers, it costs a look at one pointer.
class NamedRange {
public:
  explicit NamedRange(const char *name);
  /// "name number".
  NamedRange(const char *name, uint64_t number);
  ~NamedRange();
  NamedRange(const NamedRange &) = delete;
  NamedRange &operator=(const NamedRange &) = delete;

private:
  [[maybe_unused]] const bool isOpen_;
};

/// A range that may overlap with others, begun and ended by number: 0 is none. Any thread may end it.
uint64_t beginRange(const char *name, uint64_t number);
void endRange(uint64_t range);

} // namespace ztc
