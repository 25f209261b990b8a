#include "runtime/Memory/GreedyPacker.h"
#include <algorithm>
#include <bit>
#include <limits>

namespace ztc {

bool meetBetweenGaps(const PackEntry &a, const PackEntry &b) {
  const Interval wholeA{a.first, a.last}, wholeB{b.first, b.last};
  const Interval *pa = a.several ? a.several->data() : &wholeA, *pb = b.several ? b.several->data() : &wholeB;
  const Interval *endA = pa + (a.several ? a.several->size() : 1), *endB = pb + (b.several ? b.several->size() : 1);
  while (pa != endA && pb != endB) {
    if (pa->first <= pb->last && pb->first <= pa->last)
      return true;
    if (pa->last < pb->last)
      ++pa;
    else
      ++pb;
  }
  return false;
}

static constexpr int32_t kNeverFirst = std::numeric_limits<int32_t>::max(), kNeverLast = -1;

void PlacedBlock::clear() {
  std::fill_n(firsts, kCapacity, kNeverFirst);
  std::fill_n(lasts, kCapacity, kNeverLast);
  count = 0;
  first = kNeverFirst;
  last = kNeverLast;
  end = 0;
}

void PlacedBlock::insert(uint32_t place, uint64_t begin, uint64_t newEnd, const PackEntry &entry, uint32_t item) {
  const auto put = [&](auto *values, auto value) {
    std::copy_backward(values + place, values + count, values + count + 1);
    values[place] = value;
  };
  const auto newFirst = static_cast<int32_t>(entry.first), newLast = static_cast<int32_t>(entry.last);
  put(firsts, newFirst);
  put(lasts, newLast);
  put(begins, begin);
  put(ends, newEnd);
  put(items, item);
  ++count;
  first = std::min(first, newFirst);
  last = std::max(last, newLast);
  end = std::max(end, newEnd);
}

void PlacedBlock::split(PlacedBlock &other) {
  constexpr uint32_t kHalf = kCapacity / 2;
  other.clear();
  std::copy_n(firsts + kHalf, kHalf, other.firsts);
  std::copy_n(lasts + kHalf, kHalf, other.lasts);
  std::copy_n(begins + kHalf, kHalf, other.begins);
  std::copy_n(ends + kHalf, kHalf, other.ends);
  std::copy_n(items + kHalf, kHalf, other.items);
  std::fill_n(firsts + kHalf, kHalf, kNeverFirst);
  std::fill_n(lasts + kHalf, kHalf, kNeverLast);
  for (PlacedBlock *half : {this, &other}) {
    half->count = kHalf;
    half->first = *std::min_element(half->firsts, half->firsts + kHalf);
    half->last = *std::max_element(half->lasts, half->lasts + kHalf);
    half->end = *std::max_element(half->ends, half->ends + kHalf);
  }
}

uint32_t PlacedBlock::overlapping(uint32_t lane, int32_t from, int32_t to) const {
  // Vectors of the compiler's: some 25 instructions on any x86-64, fewer where registers are wider.
  using Moments = int32_t __attribute__((ext_vector_type(kLanes)));
  using Bits = bool __attribute__((ext_vector_type(kLanes)));
  const Moments begin = *reinterpret_cast<const Moments *>(firsts + lane),
                end = *reinterpret_cast<const Moments *>(lasts + lane);
  return std::bit_cast<uint16_t>(__builtin_convertvector((begin <= to) & (end >= from), Bits));
}

uint64_t GreedyPacker::run(const std::vector<uint32_t> &order, PackFit fit, uint64_t limit) {
  if (blocks_.empty())
    blocks_.resize(1);
  blocks_[0].clear();
  byAddress_.assign(1, 0);
  used_ = 1;
  uint64_t top = 0;
  for (uint32_t item : order) {
    const uint64_t offset = findPlace(item, fit), end = offset + entries_[item].bytes;
    offsets_[item] = offset;
    top = std::max(top, end);
    if (top >= limit)
      return top;
    insert(item, offset, end);
  }
  return top;
}

void GreedyPacker::insert(uint32_t item, uint64_t begin, uint64_t end) {
  const auto after =
      std::upper_bound(byAddress_.begin() + 1, byAddress_.end(), begin,
                       [&](uint64_t address, uint32_t block) { return address < blocks_[block].begins[0]; });
  uint32_t block = *(after - 1);
  if (blocks_[block].count == PlacedBlock::kCapacity) {
    if (used_ == blocks_.size())
      blocks_.emplace_back();
    blocks_[block].split(blocks_[used_]);
    byAddress_.insert(after, used_);
    if (begin >= blocks_[used_].begins[0])
      block = used_;
    ++used_;
  }
  PlacedBlock &into = blocks_[block];
  const auto place = std::upper_bound(into.begins, into.begins + into.count, begin) - into.begins;
  into.insert(static_cast<uint32_t>(place), begin, end, entries_[item], item);
}

uint64_t GreedyPacker::findPlace(uint32_t item, PackFit fit) const {
  const PackEntry &entry = entries_[item];
  const auto from = static_cast<int32_t>(entry.first), to = static_cast<int32_t>(entry.last);
  uint64_t cursor = 0, best = 0, bestGap = std::numeric_limits<uint64_t>::max();
  for (const uint32_t index : byAddress_) {
    const PlacedBlock &block = blocks_[index];
    if (block.first > to || block.last < from || block.end <= cursor)
      continue;
    for (uint32_t lane = 0; lane < block.count; lane += PlacedBlock::kLanes)
      for (uint32_t bits = block.overlapping(lane, from, to); bits; bits &= bits - 1) {
        const uint32_t place = lane + static_cast<uint32_t>(std::countr_zero(bits));
        const uint64_t begin = block.begins[place], end = block.ends[place];
        if (end <= cursor)
          continue;
        const PackEntry &other = entries_[block.items[place]];
        if ((entry.several || other.several) && !meetBetweenGaps(entry, other))
          continue;
        if (begin > cursor) {
          const uint64_t gap = begin - cursor;
          if (gap >= entry.bytes && gap < bestGap) {
            if (fit == PackFit::Lowest || gap == entry.bytes)
              return cursor;
            best = cursor;
            bestGap = gap;
          }
        }
        cursor = end;
      }
  }
  return bestGap == std::numeric_limits<uint64_t>::max() ? cursor : best;
}

} // namespace ztc
