// One greedy pass of the packer: pieces in a given order, each into the lowest or the tightest gap.
#pragma once
#include "runtime/Memory/Packer.h"

namespace ztc {

enum class PackFit { Lowest, Tightest };

/// What the search needs of a piece, in one cache line.
struct PackEntry {
  uint64_t bytes;
  uint32_t first, last;                 ///< bounds of the lifetime, below 2^31
  const std::vector<Interval> *several; ///< where the lifetime has gaps, else null
  uint64_t liveMoments;
};

/// Whether two pieces, one of which has gaps in its lifetime, live at one moment.
bool meetBetweenGaps(const PackEntry &a, const PackEntry &b);

/// What has been placed, sorted by where it begins, in blocks of at most kCapacity pieces, so that an insertion moves
/// few of them. Bounds of lifetimes lie side by side and are compared kLanes at a time: most pieces live at other
/// moments than the one that is to be placed, in an order that no branch predictor knows.
struct PlacedBlock {
  static constexpr uint32_t kCapacity = 64, kLanes = 16;

  alignas(64) int32_t firsts[kCapacity], lasts[kCapacity]; ///< an empty place lives at no moment
  uint64_t begins[kCapacity], ends[kCapacity];             ///< addresses, the end exclusive
  uint32_t items[kCapacity];
  uint32_t count;
  int32_t first, last; ///< bounds of all lifetimes
  uint64_t end;        ///< the highest

  void clear();
  /// Puts a piece before the one at `place`; there must be room.
  void insert(uint32_t place, uint64_t begin, uint64_t newEnd, const PackEntry &entry, uint32_t item);
  /// Moves the upper half of a full block into `other`.
  void split(PlacedBlock &other);
  /// A bit for each of the kLanes pieces from `lane` on: whether the bounds of its lifetime overlap [from, to].
  uint32_t overlapping(uint32_t lane, int32_t from, int32_t to) const;
};

/// One pass at a time over the entries, which must outlive it.
class GreedyPacker {
public:
  explicit GreedyPacker(const std::vector<PackEntry> &entries) : entries_(entries), offsets_(entries.size()) {}

  /// Places the entries of `order`. Highest end, or any value >= `limit` as soon as the pass cannot stay below it.
  uint64_t run(const std::vector<uint32_t> &order, PackFit fit, uint64_t limit);

  /// By entry, of those that the last pass placed.
  const std::vector<uint64_t> &offsets() const { return offsets_; }

private:
  uint64_t findPlace(uint32_t item, PackFit fit) const;
  void insert(uint32_t item, uint64_t begin, uint64_t end);

  const std::vector<PackEntry> &entries_;
  std::vector<PlacedBlock> blocks_; ///< the first used_ of them; kept from pass to pass
  std::vector<uint32_t> byAddress_; ///< indices of blocks
  uint32_t used_ = 0;
  std::vector<uint64_t> offsets_;
};

} // namespace ztc
