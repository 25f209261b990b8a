// Who has touched which byte in a launch. Blocks run in no order, so what one writes no other may touch; threads of a
// block are ordered by barriers alone.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace ztc::simt {

enum class Conflict { None, WithBlock, WithThread };

class Accesses {
public:
  /// Forgets everything: a launch begins.
  void begin();
  /// What threads of the block (or of one warp) did before comes before what they do now.
  void orderBlock() { blockStamp_ = nextStamp(); }
  void orderWarp(uint32_t warp) { warpStamps_[warp] = nextStamp(); }

  /// Notes an access, and tells the first one of somebody else that a GPU could do before or after it, where one of the
  /// two writes. `block` is that of the grid, `thread` that of the block. Shared memory is another one in each block.
  Conflict note(bool writes, bool isShared, const void *address, uint64_t bytes, uint64_t block, uint32_t thread);

private:
  static constexpr uint64_t kPageBytes = 4096, kMostWarps = 32;
  /// Of a byte. 0: untouched.
  struct Entry {
    uint32_t block;  ///< the block + 1, with flags
    uint32_t thread; ///< the thread of the last access, its stamp, flags
  };
  struct Page {
    uint64_t launch = 0; ///< to which the entries belong
    std::array<Entry, kPageBytes> entries;
  };
  Page &pageOf(uint64_t number);
  uint32_t nextStamp();
  static bool noteBlock(uint32_t &entry, bool writes, uint32_t own);
  bool noteThread(uint32_t &entry, bool writes, uint32_t thread) const;

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_; ///< by address / kPageBytes
  uint64_t launch_ = 0;
  /// Barriers of the launch so far: an access has the number of the last one, of whichever threads.
  uint32_t stamp_ = 1, blockStamp_ = 1;
  std::array<uint32_t, kMostWarps> warpStamps_{};
};

} // namespace ztc::simt
