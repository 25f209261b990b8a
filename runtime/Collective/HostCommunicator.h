// What communicators on the host have in common: checks of a call, its header, errors that stay, abort.
#pragma once
#include "runtime/Collective/Communicator.h"
#include <array>
#include <mutex>

namespace ztc {

enum class CollectiveKind : uint32_t { AllGather, ReduceScatter, AllReduce, Barrier, AllReduceMax };

/// What ranks must agree on. Travels between them as it is: plain bytes, the same machine type on all ranks.
struct CallHeader {
  uint64_t sequence = 0;     ///< of this call on its communicator, from 1
  uint64_t elements = 0;     ///< of a shard, or the count of an allReduce
  uint64_t scratchBytes = 0; ///< of a reduceScatter: it decides the pieces
  CollectiveKind kind = CollectiveKind::Barrier;
  plan::DataType type = plan::F32;
  std::array<char, 96> label{}; ///< the caller's, cut to 95 characters and a zero

  /// "all_gather block3".
  std::string name() const;
  /// name() and sizes.
  std::string text() const;
};
static_assert(sizeof(CallHeader) == 128);

/// Checks the call, keeps the first error, counts traffic; the transport below does the work.
class HostCommunicator : public Communicator {
public:
  Status allGather(const void *shard, void *full, uint64_t shardElements, plan::DataType type,
                   const CollectiveCall &call) final;
  Status reduceScatter(void *full, uint64_t shardElements, plan::DataType type, void *scratch, uint64_t scratchBytes,
                       const CollectiveCall &call) final;
  Status allReduce(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                   const CollectiveCall &call) final;
  Status allReduceMax(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                      const CollectiveCall &call) final;
  Status barrier(const CollectiveCall &call) final;
  Status status() const final;
  void abort(const std::string &reason) final;

protected:
  HostCommunicator(uint32_t rank, uint32_t world) : Communicator(rank, world) {}

  // With world > 1 and checked arguments. Errors need not name the call. Each counts what it has sent.
  virtual Status doAllGather(const CallHeader &header, const std::byte *shard, std::byte *full,
                             uint64_t shardBytes) = 0;
  virtual Status doReduceScatter(const CallHeader &header, std::byte *full, std::byte *scratch) = 0;
  virtual Status doAllReduce(const CallHeader &header, float *values, float *scratch) = 0;
  virtual Status doBarrier(const CallHeader &header) = 0;
  /// Makes a blocked do* return; hasFailed() is true by then. Any thread.
  virtual void wake() = 0;

  /// An error happened or abort() was called.
  bool hasFailed() const { return failed_.load(std::memory_order_acquire); }
  /// Ok, or what to say where `theirs`, of rank `peer`, is another call than `ours`.
  Status compare(const CallHeader &ours, const CallHeader &theirs, uint32_t peer) const;
  /// "rank 2 is lost: why".
  static Status lost(uint32_t peer, const std::string &why);

private:
  StatusOr<CallHeader> begin(CollectiveKind kind, uint64_t elements, plan::DataType type, uint64_t scratchBytes,
                             const CollectiveCall &call);
  /// Keeps an error and gives it the call's name.
  Status end(const CallHeader &header, Status status);

  uint64_t sequence_ = 0;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_; ///< of the two below
  Status error_;
  bool aborted_ = false; ///< error_ is abort's: it does not name a call yet
};

/// out[i] := ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... in f32, rounded once to `type` (F32, BF16 or F16).
/// `out` may be one of the parts.
void sumInRankOrder(void *out, const std::byte *const *parts, uint32_t world, uint64_t elements, plan::DataType type);

} // namespace ztc
