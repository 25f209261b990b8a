// Which block of a grid has touched which byte of global memory: blocks run in no order, so what one writes no other
// may touch in the same launch.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace ztc::simt {

class BlockAccesses {
public:
  /// Forgets everything: a launch begins.
  void begin();
  /// Notes an access of a block. False where it is none that a GPU could do in any order: another block has written
  /// there, or has read what this one writes.
  bool note(bool writes, const void *address, uint64_t bytes, uint64_t block);

private:
  static constexpr uint64_t kPageBytes = 4096;
  struct Page {
    uint64_t launch = 0; ///< to which the entries belong
    /// By byte. 0: untouched; else the block + 1, with kWritten or, once blocks differ, kManyRead.
    std::array<uint32_t, kPageBytes> entries;
  };
  Page &pageOf(uint64_t number);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_; ///< by address / kPageBytes
  uint64_t launch_ = 0;
};

} // namespace ztc::simt
