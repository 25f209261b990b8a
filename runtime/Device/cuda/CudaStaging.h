// Page-locked memory through which everything between the host and the arena goes.
#pragma once
#include "runtime/Device/cuda/CudaLibraries.h"
#include <array>
#include <cstddef>
#include <cstdint>

namespace ztc {

/// A ring on one stream: pieces are taken in turn, so that the next is filled while those before are on their way, and
/// the caller's memory is free when a call returns. The host waits where the ring is full, and for what it reads.
class PinnedStaging {
public:
  static constexpr uint64_t kBytes = uint64_t(8) << 20;
  static constexpr uint64_t kPieceBytes = uint64_t(2) << 20;
  static constexpr uint64_t kMostPieces = 256; ///< on their way at once

  explicit PinnedStaging(const CudaDriver &driver) : driver_(driver) {}
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging &) = delete;
  PinnedStaging &operator=(const PinnedStaging &) = delete;
  Status create(cuda::Stream stream);

  /// Comes after everything that the stream was given, and the host goes on.
  Status upload(cuda::Address to, const void *from, uint64_t bytes);
  /// Waits for everything that the stream was given.
  Status download(void *to, cuda::Address from, uint64_t bytes);

private:
  struct Piece {
    uint64_t begin = 0, end = 0; ///< in the ring
  };
  std::byte *memory(uint64_t number) const { return memory_ + pieces_[number % kMostPieces].begin; }
  /// Gives room for the piece `taken_`, waiting for those whose place or turn it takes.
  Status take(uint64_t bytes);
  /// Its copy has been enqueued.
  Status enqueued();
  /// Waits until piece `number` has been copied, and with it all before.
  Status wait(uint64_t number);

  const CudaDriver &driver_;
  cuda::Stream stream_ = nullptr;
  std::byte *memory_ = nullptr;
  std::array<Piece, kMostPieces> pieces_; ///< by number, modulo
  std::array<cuda::Event, kMostPieces> events_{};
  uint64_t taken_ = 0, free_ = 0; ///< numbers of the next piece, and of the oldest that may be on its way
  uint64_t head_ = 0;             ///< where the next piece goes
};

} // namespace ztc
