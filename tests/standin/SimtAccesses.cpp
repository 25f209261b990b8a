#include "tests/standin/SimtAccesses.h"
#include <algorithm>

namespace ztc::simt {

static constexpr uint32_t kWritten = 1u << 31, kManyRead = 1u << 30, kBlock = kManyRead - 1;
/// Of a thread's entry, beside these: several threads of one warp have read; then 19 bits of stamp and ten of thread.
static constexpr uint32_t kWarpRead = 1u << 29, kStampShift = 10, kThread = (1u << kStampShift) - 1,
                          kMostStamp = (kWarpRead >> kStampShift) - 1, kLanes = 32;

void Accesses::begin() {
  constexpr size_t kMostPages = size_t(1) << 13;
  ++launch_;
  if (pages_.size() > kMostPages)
    pages_.clear();
  stamp_ = blockStamp_ = 1;
  warpStamps_.fill(0);
}

/// Past the last stamp nothing is known of the block's threads, which hides races and invents none.
uint32_t Accesses::nextStamp() {
  if (stamp_ == kMostStamp) {
    for (auto &[number, page] : pages_)
      for (Entry &entry : page->entries)
        entry.thread = 0;
    stamp_ = 0;
    warpStamps_.fill(0);
    blockStamp_ = 1;
  }
  return ++stamp_;
}

Accesses::Page &Accesses::pageOf(uint64_t number) {
  std::unique_ptr<Page> &page = pages_[number];
  if (!page)
    page = std::make_unique<Page>();
  if (page->launch != launch_) {
    page->launch = launch_;
    page->entries.fill({});
  }
  return *page;
}

bool Accesses::noteBlock(uint32_t &entry, bool writes, uint32_t own) {
  const bool isOthers = entry != 0 && (entry & kBlock) != own;
  if (isOthers && (writes || entry & kWritten))
    return false;
  if (writes && entry & kManyRead)
    return false;
  if (writes)
    entry = own | kWritten;
  else if (isOthers)
    entry |= kManyRead;
  else if (entry == 0)
    entry = own;
  return true;
}

bool Accesses::noteThread(uint32_t &entry, bool writes, uint32_t thread) const {
  const uint32_t other = entry & kThread, stamp = entry >> kStampShift & kMostStamp;
  const bool sameWarp = other / kLanes == thread / kLanes, isMany = entry & (kManyRead | kWarpRead);
  const uint32_t own = thread | stamp_ << kStampShift;
  // Nobody's, or all that is noted comes before this.
  if (entry == 0 || stamp < blockStamp_ || (sameWarp && !(entry & kManyRead) && stamp < warpStamps_[thread / kLanes])) {
    entry = own | (writes ? kWritten : 0);
    return true;
  }
  if (other == thread && !isMany) {
    entry = own | (writes ? kWritten : entry & kWritten);
    return true;
  }
  if (writes || entry & kWritten)
    return false;
  entry = own | kWarpRead | (sameWarp ? entry & kManyRead : kManyRead);
  return true;
}

Conflict Accesses::note(bool writes, bool isShared, const void *address, uint64_t bytes, uint64_t block,
                        uint32_t thread) {
  const auto first = reinterpret_cast<uint64_t>(address);
  const uint32_t own = uint32_t(block % kBlock) + 1;
  Page *page = nullptr;
  for (uint64_t at = first; at < first + bytes; ++at) {
    if (!page || at % kPageBytes == 0)
      page = &pageOf(at / kPageBytes);
    Entry &entry = page->entries[at % kPageBytes];
    if (!isShared && !noteBlock(entry.block, writes, own))
      return Conflict::WithBlock;
    if (!noteThread(entry.thread, writes, thread))
      return Conflict::WithThread;
  }
  return Conflict::None;
}

} // namespace ztc::simt
