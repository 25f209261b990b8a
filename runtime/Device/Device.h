// What a plan runs on: memory, and steps in three phases.
#pragma once
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/Packing.h"
#include "runtime/Core/Status.h"
#include "runtime/Device/Trace.h"
#include "runtime/Format/AlgorithmChoices.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Ranks/ProgressBoard.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

class LowerMemory;

/// The one allocation of a rank. Freshly allocated memory is zero.
class Arena {
public:
  virtual ~Arena() = default;
  std::byte *base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

protected:
  std::byte *base_ = nullptr;
  uint64_t bytes_ = 0;
};

/// What a step is prepared from.
struct PrepareContext {
  const plan::Plan &plan;
  const MemoryPlan &memory;
  PlanShape shape;
  uint32_t rank = 0;                    ///< in [0, shape.world): chooses the rank's own shards
  Communicator *communicator = nullptr; ///< of this rank; null where shape.world is 1
  ProgressBoard *board = nullptr;       ///< is told which collective runs; may be null
  LowerMemory *lower = nullptr;         ///< the spaces below the device's; may be null where no slot lies there
  DocumentBounds documents = {};        ///< of packed rows
  std::string_view program = {};        ///< the one that the step is of; empty where it stands alone
};

/// One step of a program on one device, in three phases: prepared (kernels and primitives resolved, everything
/// allocated), initialized (arena addresses known), executed any number of times. Execution does not allocate.
class DeviceStep {
public:
  virtual ~DeviceStep() = default;
  /// Called once, and again if the arena moves.
  virtual Status initialize(std::byte *arena) = 0;
  /// `microstep` counts from 0 within an optimizer step. A step of another stream than 0 is only handed to it; where it
  /// fails there, later waits and synchronize() return the error.
  virtual Status execute(uint32_t microstep) = 0;
  /// Time that a step which was only handed over has taken so far, in all its executions: those of another stream than
  /// 0, and all of a device that timesSteps().
  virtual uint64_t queuedNanoseconds() const { return 0; }
};

/// All steps of a program as the device has recorded them, to be executed in one call.
class RecordedProgram {
public:
  virtual ~RecordedProgram() = default;
  virtual Status launch() = 0;
};

/// A few bytes of host memory into which values of the arena are copied without waiting for them.
class ReadBack {
public:
  virtual ~ReadBack() = default;
  /// Puts `bytes` from `from` at byte `to`, as they are when everything executed so far is done and nothing that is
  /// executed later.
  virtual Status enqueue(uint64_t to, const std::byte *from, uint64_t bytes) = 0;
  /// Waits until everything enqueued is there, and for nothing that was executed later; the first byte.
  virtual StatusOr<const std::byte *> wait() = 0;
};

/// Reads the arena from another thread than the one that executes, beside what is executed.
class ArenaReader {
public:
  virtual ~ArenaReader() = default;
  /// Copies to ordinary memory what lies at `from`, waiting for this alone. Nothing under way may write there.
  virtual Status read(void *to, const std::byte *from, uint64_t bytes) = 0;
};

/// What a device says about itself while it works; 0 where that is unknown.
struct DeviceTelemetry {
  uint32_t clockMhz = 0;
  double watts = 0;
  uint32_t celsius = 0;
};

/// What a device can do at best, as measured; 0 where that is unknown.
struct DeviceLimits {
  double copyBytesPerSecond = 0; ///< read and written bytes together
  double matmulFlopsPerSecond = 0;
  std::string matmulName; ///< what was multiplied, by which library
};

/// The ways that a device takes for steps that it can compute in several, as each rank finds out for itself.
struct DeviceWays {
  std::string compared; ///< equal where bits are, for one plan
  std::string shown;    ///< the same for a person, with reasons
};

/// What a device that is to choose between the algorithms of its libraries gets.
struct TuningRequest {
  AlgorithmChoices known = {}; ///< taken where they are for this device and fit
  double seconds = 0;          ///< that measuring may take, nearly; 0: nothing is measured
  std::function<void(size_t done, size_t all)> progress = {}; ///< before each call that is measured; may be empty
};
struct TunedAlgorithms {
  AlgorithmChoices all;        ///< of every call that has a choice
  AlgorithmChoices measured;   ///< those that were measured now
  std::set<std::string> known; ///< signatures of those that were known
  size_t unmeasured = 0;       ///< calls that keep their library's first choice because the time did not suffice
  double seconds = 0;          ///< that it took
  /// Of attention's calls that were measured now: the shortest time of each way to compute it, by signature and way.
  std::map<std::string, std::map<std::string, double>> attentionSeconds;
};

/// The memory that a device computes in, and what it takes of it. Every device has it.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  virtual StatusOr<std::unique_ptr<Arena>> allocateArena(uint64_t bytes) = 0;
  /// Memory of this host that the device copies from and to: page-locked where that makes a difference. Zero.
  virtual StatusOr<std::unique_ptr<Arena>> allocateHostSpace(uint64_t bytes) { return allocateArena(bytes); }
  /// Bytes of the arena as the device allocates it: whole pages.
  virtual uint64_t roundedArenaBytes(uint64_t bytes) const { return bytes; }

  /// Copies between ordinary memory and the arena.
  virtual Status upload(std::byte *to, const void *from, uint64_t bytes) = 0;
  virtual Status download(void *to, const std::byte *from, uint64_t bytes) = 0;
  /// At most 4096 bytes; the device outlives it.
  virtual StatusOr<std::unique_ptr<ReadBack>> createReadBack(uint64_t bytes);
  /// Null where concurrent reading gains nothing: both would be the work of the same processor. The device outlives it.
  virtual StatusOr<std::unique_ptr<ArenaReader>> createReader() { return std::unique_ptr<ArenaReader>(); }

  /// Free bytes where the arena will be.
  virtual StatusOr<uint64_t> freeBytes() const = 0;
  /// Names the memory that the arena comes from, among those of this host: empty for the host's own. Ranks with equal
  /// names share what is free.
  virtual std::string memoryName() const { return {}; }
  /// Makes the libraries of the prepared steps and `communicator` (may be null) take what they take outside the arena:
  /// their code, their buffers. Before allocateArena(); all ranks call it.
  virtual Status warmLibraries(Communicator *communicator) { return Status::ok(); }
  /// Bytes that libraries hold outside the arena (scratchpads): part of the reserve, not of the peak.
  virtual uint64_t libraryBytes() const = 0;
  /// What will still be taken after warmLibraries(), outside the arena: an estimate.
  virtual uint64_t lateBytes() const { return 0; }
  /// What libraries and communication take outside the arena on one of `world` ranks, before it is measured.
  virtual uint64_t estimatedReserveBytes(uint32_t world) const { return 0; }
};

/// Chooses between the algorithms of a device's libraries.
class AlgorithmTuner {
public:
  virtual ~AlgorithmTuner() = default;
  /// Names what algorithms are chosen for: a library, its version and this device. Empty where the prepared steps leave
  /// no choice.
  virtual std::string algorithmKey() const = 0;
  /// Chooses an algorithm for every call of the prepared steps. Before the arena holds anything: it is zero again
  /// afterwards.
  virtual StatusOr<TunedAlgorithms> tuneAlgorithms(const Arena &arena, const TuningRequest &request) = 0;
  /// Takes over the choices of another rank. FailedPrecondition where this device cannot take all of them.
  virtual Status useAlgorithms(const AlgorithmChoices &choices) = 0;
};

/// Records programs: between the two calls steps are not executed but noted, with beginProgram() and finishProgram()
/// around them. Everything they need has to be loaded before.
class ProgramRecorder {
public:
  virtual ~ProgramRecorder() = default;
  virtual Status beginRecording() = 0;
  /// Also after an error: nothing is recorded any more.
  virtual StatusOr<std::unique_ptr<RecordedProgram>> endRecording() = 0;
};

/// Measures a device: while it works, and at its best.
class DeviceGauges {
public:
  virtual ~DeviceGauges() = default;
  /// Now, for the progress line.
  virtual DeviceTelemetry telemetry() const { return {}; }
  /// What the maker promises for dense products of this type with f32 sums; 0: unknown.
  virtual double peakFlopsPerSecond(plan::DataType type) const { return 0; }
  /// Takes some tenths of a second; only while no step is executed.
  virtual StatusOr<DeviceLimits> measureLimits() = 0;
};

/// A place that executes steps: memory, steps, and the optional parts it hands out. It serves one plan at a time.
class Device {
public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// What bits depend on besides the plan: instruction set, library versions, threads. For the run's log.
  virtual std::string description() const = 0;
  /// Complete once the steps are prepared. Ranks must have the same.
  virtual DeviceWays ways() const { return {}; }
  /// T of PlanShape: worker threads; 0: a GPU.
  virtual uint32_t threads() const = 0;

  virtual DeviceMemory &memory() = 0;
  virtual const DeviceMemory &memory() const = 0;
  virtual DeviceGauges &gauges() = 0;
  virtual const DeviceGauges &gauges() const = 0;
  /// Null where the libraries leave no choice.
  virtual AlgorithmTuner *tuner() { return nullptr; }
  /// Null where programs are executed step by step.
  virtual ProgramRecorder *recorder() { return nullptr; }

  /// Makes the plan's kernel images callable; before any prepareStep.
  virtual Status loadKernels(const plan::Plan &plan) = 0;
  virtual StatusOr<std::unique_ptr<DeviceStep>> prepareStep(const plan::Step &step, const PrepareContext &context) = 0;

  /// True where execute() and finishProgram() return before the steps are done: the next ones may be given meanwhile.
  virtual bool isAsynchronous() const { return false; }
  /// Waits until everything executed is done, on all streams. Fails where something there has failed.
  virtual Status synchronize() = 0;
  /// Before a program's steps: what they do on any stream comes after everything executed or copied so far.
  virtual Status beginProgram(bool severalStreams) { return Status::ok(); }
  /// After them: whatever is done to the arena from now on comes after them. The host waits; a GPU joins its streams
  /// and lets the host go on.
  virtual Status finishProgram(bool severalStreams) { return severalStreams ? synchronize() : Status::ok(); }
  /// After an error: ends what other streams still do, if need be by aborting their communicator, and returns when the
  /// arena is no longer in use.
  virtual void abandon(const std::string &reason) {}

  /// True where execute() only hands steps over, on every stream: their spans and times are the device's business, and
  /// it takes them where it was made for that.
  virtual bool timesSteps() const { return false; }
  /// Records what each worker does on tracks of its own from now on; null ends it. The device adds its tracks.
  virtual void setTrace(TraceRecorder *trace) = 0;
};

/// Of a synchronous device: the values are there at once.
class ImmediateReadBack : public ReadBack {
public:
  ImmediateReadBack(DeviceMemory &device, uint64_t bytes) : device_(device), memory_(bytes) {}
  Status enqueue(uint64_t to, const std::byte *from, uint64_t bytes) override {
    return device_.download(memory_.data() + to, from, bytes);
  }
  StatusOr<const std::byte *> wait() override { return memory_.data(); }

private:
  DeviceMemory &device_;
  std::vector<std::byte> memory_;
};

inline StatusOr<std::unique_ptr<ReadBack>> DeviceMemory::createReadBack(uint64_t bytes) {
  return std::unique_ptr<ReadBack>(std::make_unique<ImmediateReadBack>(*this, bytes));
}

} // namespace ztc
