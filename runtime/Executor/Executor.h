// Runs the programs of a plan on a device.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/Device.h"
#include "runtime/Device/Trace.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// Time spent in one step since the executor was made (or resetStatistics).
struct StepStatistics {
  std::string name;
  uint64_t count = 0;
  uint64_t nanoseconds = 0;       ///< on its stream: a collective of stream 1 overlaps with steps of stream 0
  uint64_t shortest = UINT64_MAX; ///< nanoseconds of the fastest execution: what others on the machine took least from
  uint64_t flops = 0;             ///< of one execution, as the plan states
};

struct ProgramStatistics {
  std::string program;
  std::vector<StepStatistics> steps; ///< in the order of the program
};

/// Three phases. create() is Prepare: it resolves kernels and creates library primitives and needs no arena.
/// initialize() is Initialize: it takes the arena and copies the plan's constants into it. execute() is Execute.
///
///     auto executor = Executor::create(plan, memory, shape, rank, *device);
///     auto arena = device->memory().allocateArena(memory.arenaBytes);
///     (*executor)->initialize(**arena);
///     (*executor)->execute("microstep", 0); (*executor)->execute("update");
///
/// The plan, the device and the arena must outlive the executor. Not thread-safe, except progress().
class Executor {
public:
  /// `memory` is planMemory(plan, shape); `shape.threads` must be device.threads(). `communicator` is that of `rank`,
  /// null at one rank; it, `board`, which is told what runs and may be null, and `lower`, which a plan needs that keeps
  /// slots in other spaces than the device's, must outlive the executor. `documents`: what no packed row that the
  /// programs get goes beyond.
  static StatusOr<std::unique_ptr<Executor>> create(const plan::Plan &plan, const MemoryPlan &memory,
                                                    const PlanShape &shape, uint32_t rank, Device &device,
                                                    Communicator *communicator = nullptr,
                                                    ProgressBoard *board = nullptr, LowerMemory *lower = nullptr,
                                                    DocumentBounds documents = {});
  ~Executor();

  /// The arena must have memory.arenaBytes and must be zero at first (as allocateArena returns it).
  Status initialize(Arena &arena);

  /// From here on what no step may read any more is not a number: the bytes of every slot become all ones where its
  /// life ends, and those of slots that live later at once. Each step is waited for. After initialize(), on a host.
  Status poisonDeadSlots();

  /// From here on programs are executed step by step, also where the device could record them.
  void recordNothing();

  bool hasProgram(std::string_view program) const;
  /// Runs all steps of a program; when it returns, nothing of it is under way (on a GPU: nothing that a later call
  /// would not wait for; readSlot waits), also after an error. `microstep` counts from 0 within an optimizer step: 0
  /// overwrites accumulators, the last of shape.accumulate runs the steps that belong to it alone. The error of a
  /// collective surfaces in the step that waits for it and names it.
  Status execute(std::string_view program, uint32_t microstep = 0);

  /// Copies into or out of a slot. Fails where the range leaves the slot.
  Status writeSlot(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes);
  Status readSlot(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) const;
  /// The same range of a slot of the device to byte `to` of `readBack`, as it is when all programs executed so far are
  /// done, without waiting.
  Status readLater(uint32_t slot, uint64_t offset, uint64_t bytes, ReadBack &readBack, uint64_t to) const;
  /// readSlot() beside what is executed: any thread may call it, for a slot that nothing under way writes.
  Status readSlot(ArenaReader &reader, uint32_t slot, uint64_t offset, void *to, uint64_t bytes) const;
  StatusOr<std::unique_ptr<ReadBack>> createReadBack(uint64_t bytes) const;
  /// True where execute() returns before the program is done (see Device).
  bool isAsynchronous() const;
  /// The first byte of a slot of the device, in its address space.
  std::byte *slotAddress(uint32_t slot) const;
  uint64_t slotBytes(uint32_t slot) const;

  const MemoryPlan &memory() const;
  const std::vector<ProgramStatistics> &statistics() const;
  void resetStatistics();
  /// Records programs and steps from now on, on tracks of the executor and of the device; null ends it.
  void setTrace(TraceRecorder *trace);
  /// Steps begun since create(), all programs together: moves as long as the executor does. Any thread may ask.
  uint64_t progress() const;

private:
  struct Implementation;
  explicit Executor(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

} // namespace ztc
