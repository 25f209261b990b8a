// A plan on a device, in memory, ready to run; its weights are not loaded yet.
#pragma once
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/Status.h"
#include "runtime/Device/Device.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Ranks/RankContext.h"
#include "runtime/Train/Algorithms.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// The slots of an executor, for checkpoints and exports.
class ExecutorMemory final : public StateMemory {
public:
  /// Reads through `reader`, where there is one, beside what is executed.
  explicit ExecutorMemory(Executor &executor, ArenaReader *reader = nullptr) : executor_(executor), reader_(reader) {}
  Status read(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) override {
    return reader_ ? executor_.readSlot(*reader_, slot, offset, to, bytes)
                   : executor_.readSlot(slot, offset, to, bytes);
  }
  Status write(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes) override {
    return executor_.writeSlot(slot, offset, from, bytes);
  }

private:
  Executor &executor_;
  ArenaReader *reader_;
};

class Session {
public:
  /// Plans the memory, and only where that fits on every rank takes the one allocation of the run. `shape.threads` is
  /// taken from the device, `shape.world` from `ranks`. Then the device's libraries get their algorithms. `disk` says
  /// where a plan that keeps slots there has its file, which is reserved first of all. `documents`: of packed rows.
  static StatusOr<std::unique_ptr<Session>> open(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape,
                                                 RankContext ranks, const AlgorithmPolicy &algorithms = {},
                                                 const DiskSpaceOptions &disk = {}, DocumentBounds documents = {});

  ~Session();

  const plan::Plan &plan() const { return loaded_.plan; }
  const std::string &planSha256() const { return loaded_.sha256; }
  const PlanShape &shape() const { return shape_; }
  const MemoryPlan &memory() const { return memory_; }
  const Device &device() const { return *device_; }
  const Arena &arena() const { return *arena_; }
  /// The spaces below the device's; null where the plan has nothing there.
  const LowerMemory *lower() const { return lower_.get(); }
  Executor &executor() { return *executor_; }
  StatusOr<DeviceLimits> measureLimits() { return device_->gauges().measureLimits(); }
  const ChosenAlgorithms &algorithms() const { return algorithms_; }
  const RankContext &ranks() const { return ranks_; }
  /// For checkpoints, exports and dumps: the plan's staging slot is their buffer.
  StateContext state() { return {loaded_.plan, *stateMemory_, staging_, &ranks_.control}; }
  /// The same for a checkpoint that another thread writes while programs run, if that is possible here. Where the
  /// plan's slot would be in the way of these it has a buffer of its own; else both have the same one, and one of both
  /// is used at a time.
  StateContext concurrentState() { return {loaded_.plan, *concurrentMemory_, concurrentStaging_, &ranks_.control}; }
  bool canReadConcurrently() const { return reader_ != nullptr; }
  /// Waits until everything executed or written so far is done.
  Status synchronize() { return device_->synchronize(); }

private:
  explicit Session(RankContext ranks) : ranks_(ranks) {}
  RankContext ranks_;
  LoadedPlan loaded_;
  PlanShape shape_;
  MemoryPlan memory_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<LowerMemory> lower_;
  std::unique_ptr<Arena> arena_;
  ChosenAlgorithms algorithms_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ExecutorMemory> stateMemory_;
  std::unique_ptr<ArenaReader> reader_; ///< null: nothing is read beside programs
  std::unique_ptr<ExecutorMemory> concurrentMemory_;
  std::span<std::byte> staging_, concurrentStaging_;
  std::vector<std::byte> ownStaging_; ///< where the plan has no staging slot, or programs use its memory
};

/// Processors that this process may use.
uint32_t availableCores();

/// What a rank takes beside its arena.
struct MemoryBeside {
  uint64_t reserveBytes = 0; ///< in all: the plan's, or an estimate
  uint64_t lateBytes = 0;    ///< of it, what is not taken yet
};

/// ResourceExhausted where the arenas of all ranks in one memory (`place`: a GPU's, or this host's), with what is still
/// to come beside them, exceed what is free there or, one with its reserve, the budget it was compiled for.
Status checkMemory(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory, uint64_t freeBytes,
                   uint64_t ranksHere = 1, const std::string &place = "this host", const MemoryBeside &beside = {});

} // namespace ztc
