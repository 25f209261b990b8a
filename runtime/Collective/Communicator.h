// What ranks do together: collectives over all ranks of a run. One transport is one Communicator (NCCL, Gloo,
// in-process threads); tests/conformance holds each against the same suite.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ztc {

/// Bytes that this rank handed to other ranks since the communicator was made, by kind. They count when they have
/// left, piece by piece: while a long collective runs, they move.
struct Traffic {
  uint64_t allGather = 0;
  uint64_t reduceScatter = 0;
  uint64_t allReduce = 0; ///< scalars: not part of sentBytes()
  /// Parameter and gradient collectives: `sent_bytes` of the log.
  uint64_t sentBytes() const { return allGather + reduceScatter; }
};

/// What every collective is told besides its data.
struct CollectiveCall {
  /// Names the call in errors and for the watchdog, e.g. "all_gather block3". Must be the same on all ranks: where the
  /// transport can tell, a different label is a reported mismatch. Valid until the call's work is done.
  std::string_view label;
  /// The device's stream (CUstream) on which the work is enqueued; null, the only value on the host: the call blocks
  /// until this rank's memory may be read and changed.
  void *stream = nullptr;
};

/// The ranks 0..world-1 of a run, seen from one of them.
///
/// Every rank calls the same collectives with the same sizes, types and labels in the same order, from one thread at a
/// time. A shard is `shardElements` elements; a full buffer is `world` shards, rank r's at r times that. With one rank
/// nothing is sent.
///
/// Errors are final: after one every later call returns it. Its code is Unavailable where a rank is gone or abort() was
/// called, FailedPrecondition where ranks disagree about the call, InvalidArgument where this call makes no sense. The
/// message names the collective, its label and, where known, the peer: "all_gather block3: rank 2 is lost: ...".
///
/// A communicator is destroyed by the thread that uses it, before the memory it was given is released.
class Communicator {
public:
  virtual ~Communicator() = default;
  uint32_t rank() const { return rank_; }
  uint32_t world() const { return world_; }
  /// "threads", "gloo", "nccl".
  virtual std::string name() const = 0;
  /// Name, version and address: what a log has to say about it.
  virtual std::string description() const = 0;

  /// A small call of each kind that counts nowhere, so that the transport takes now what it takes at its first call.
  /// `memory` has kWarmBytes for each rank. All ranks call it.
  virtual Status warm(std::byte *memory, const CollectiveCall &call) { return Status::ok(); }
  static constexpr uint64_t kWarmBytes = 1024;

  /// Tells the transport about memory that most calls will use (the arena): once, before the first collective. Only a
  /// matter of speed.
  virtual Status registerMemory(std::byte *base, uint64_t bytes) { return Status::ok(); }
  /// Before that memory is released.
  virtual void forgetMemory() {}
  /// Multiprocessors of the GPU that its kernels occupy at most while a collective is under way; 0: none.
  virtual uint32_t multiprocessors() const { return 0; }

  /// full := the shards of all ranks in rank order. In place where `shard` is this rank's shard of `full`.
  virtual Status allGather(const void *shard, void *full, uint64_t shardElements, plan::DataType type,
                           const CollectiveCall &call) = 0;

  /// This rank's shard of `full` := the sum over ranks r = 0, 1, 2, ... of that shard in rank r's `full`, strictly
  /// ((g0 + g1) + g2) + ... in f32; bf16 and f16 are widened first and rounded once at the end. The rest of `full` is
  /// left as it was or lost. `scratch` receives what others send, and decides the piece in which the call works: its
  /// size must be the same on all ranks and at least minimumScratchBytes(). Null and 0 where the transport reduces
  /// by itself.
  virtual Status reduceScatter(void *full, uint64_t shardElements, plan::DataType type, void *scratch,
                               uint64_t scratchBytes, const CollectiveCall &call) = 0;

  /// values[0..count) := their sums over ranks in rank order, in f32. `scratch` has room for world * count floats.
  virtual Status allReduce(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                           const CollectiveCall &call) = 0;

  /// values[0..count) := their maxima over ranks, of numbers that are not negative; NaN where one is. `scratch` as that
  /// of allReduce.
  virtual Status allReduceMax(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                              const CollectiveCall &call) = 0;

  /// Returns when every rank has called it.
  virtual Status barrier(const CollectiveCall &call) = 0;

  /// Calls between the two may be started together (NCCL's groups) and are complete after groupEnd(). Hosts run them
  /// one by one.
  virtual Status groupBegin() { return Status::ok(); }
  virtual Status groupEnd() { return Status::ok(); }

  /// Ok, or the error that happened, also one that no call has returned yet (NCCL's asynchronous errors). Any thread.
  virtual Status status() const = 0;

  /// Ends the blocked call of this rank, and every later one, with Unavailable and `reason`. Any thread, any number of
  /// times; the first reason stays. Other ranks are not told: they notice when this communicator is destroyed.
  virtual void abort(const std::string &reason) = 0;
  /// After an abort: whether the library may go on with it for longer than the program should. It is left behind at the
  /// program's end, which must not wait for it.
  virtual bool isLeftBehind() const { return false; }

  /// Any thread.
  Traffic traffic() const {
    return {allGatherBytes_.load(std::memory_order_relaxed), reduceScatterBytes_.load(std::memory_order_relaxed),
            allReduceBytes_.load(std::memory_order_relaxed)};
  }

  /// The least scratch of reduceScatter on the host: two pieces of 16 elements from each rank.
  static uint64_t minimumScratchBytes(uint32_t world, uint64_t elementBytes) {
    return 2 * 16 * uint64_t(world) * elementBytes;
  }

  /// Counts calls that were made before and are repeated without us: a recorded program's.
  void addTraffic(const Traffic &more) {
    allGatherBytes_.fetch_add(more.allGather, std::memory_order_relaxed);
    reduceScatterBytes_.fetch_add(more.reduceScatter, std::memory_order_relaxed);
    allReduceBytes_.fetch_add(more.allReduce, std::memory_order_relaxed);
  }

protected:
  Communicator(uint32_t rank, uint32_t world) : rank_(rank), world_(world) {}

  std::atomic<uint64_t> allGatherBytes_{0}, reduceScatterBytes_{0}, allReduceBytes_{0};

private:
  const uint32_t rank_;
  const uint32_t world_;
};

} // namespace ztc
