#include "tests/standin/SimtAccesses.h"

namespace ztc::simt {

static constexpr uint32_t kWritten = 1u << 31, kManyRead = 1u << 30, kBlock = kManyRead - 1;

void BlockAccesses::begin() {
  constexpr size_t kMostPages = size_t(1) << 14;
  ++launch_;
  if (pages_.size() > kMostPages)
    pages_.clear();
}

BlockAccesses::Page &BlockAccesses::pageOf(uint64_t number) {
  std::unique_ptr<Page> &page = pages_[number];
  if (!page)
    page = std::make_unique<Page>();
  if (page->launch != launch_) {
    page->launch = launch_;
    page->entries.fill(0);
  }
  return *page;
}

bool BlockAccesses::note(bool writes, const void *address, uint64_t bytes, uint64_t block) {
  const auto first = reinterpret_cast<uint64_t>(address);
  const uint32_t own = uint32_t(block % kBlock) + 1;
  Page *page = nullptr;
  for (uint64_t at = first; at < first + bytes; ++at) {
    if (!page || at % kPageBytes == 0)
      page = &pageOf(at / kPageBytes);
    uint32_t &entry = page->entries[at % kPageBytes];
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
  }
  return true;
}

} // namespace ztc::simt
