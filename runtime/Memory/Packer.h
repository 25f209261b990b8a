// Offline packing of pieces with known lifetimes into one range of addresses.
#pragma once
#include <cstdint>
#include <vector>

namespace ztc {

/// Moments [first, last], both inclusive.
struct Interval {
  uint32_t first = 0;
  uint32_t last = 0;
};

/// One piece. Its intervals are in time order and disjoint; between them its bytes belong to others.
struct PackItem {
  uint64_t bytes = 0; ///< above 0; a multiple of the alignment
  std::vector<Interval> lifetime;
};

struct Packing {
  uint64_t bytes = 0;            ///< end of the highest piece
  std::vector<uint64_t> offsets; ///< by item
};

/// Places the items so that no two that live at one moment share an address. Deterministic: integers and total orders
/// only. `length`: number of moments; every interval ends below it. The search for a smaller packing ends with the
/// first that takes at most `enough` bytes.
Packing pack(const std::vector<PackItem> &items, uint32_t length, uint64_t enough = 0);

} // namespace ztc
