#include "runtime/Executor/Executor.h"
#include "runtime/Core/NamedRange.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/MemoryTimeline.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace ztc {
namespace {

/// A program as the device has recorded it, for micro-steps that execute the same steps in the same way.
struct Recording {
  uint32_t runs = 0; ///< how often its steps were executed one by one
  std::unique_ptr<RecordedProgram> program;
};

struct PreparedProgram {
  std::string name;
  std::vector<std::unique_ptr<DeviceStep>> steps; ///< null: this number of micro-steps has no use for it
  uint32_t firstLabel = 0;                        ///< of a trace: the program's label, then those of its steps
  const plan::Program *record = nullptr;          ///< the steps as the plan has them
  bool hasStreams = false;                        ///< some step is on another stream than 0
  std::vector<bool> isOthers = {};                ///< by step: only other ranks execute it
  std::vector<std::vector<uint32_t>> dying = {};  ///< by step: slots to be poisoned after it; empty: none are
  std::vector<uint64_t> queuedNanoseconds = {};   ///< by step: what the statistics know of
  std::array<Recording, 8> recordings = {};       ///< by (first micro-step) + 2 (last micro-step) + 4 (carried slots)
};

} // namespace

struct Executor::Implementation {
  const plan::Plan &plan;
  MemoryPlan memory;
  Device &device;
  PlanShape shape;
  ProgressBoard *board = nullptr;
  LowerMemory *lower = nullptr;
  std::byte *arena = nullptr;
  std::vector<PreparedProgram> programs;     ///< in the plan's order
  std::vector<ProgramStatistics> statistics; ///< likewise
  std::atomic<uint64_t> progress{0};
  TraceRecorder *trace = nullptr;
  bool records = true;                      ///< programs, where the device can
  bool hasCarried = false;                  ///< some slot is carried from update to the next micro-step
  bool isCarried = false;                   ///< update has filled these, and no parameter was written since
  uint32_t programTrack = 0, stepTrack = 0; ///< of the trace

  Implementation(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, Device &device,
                 ProgressBoard *board, LowerMemory *lower)
      : plan(plan), memory(memory), device(device), shape(shape), board(board), lower(lower),
        hasCarried(std::ranges::any_of(plan.slots(), [](const plan::Slot &slot) { return slot.carried(); })) {}

  Status prepare(uint32_t rank, Communicator *communicator, DocumentBounds documents);
  /// Runs the steps; on an error others than stream 0 may still be at work.
  Status run(PreparedProgram &program, std::vector<StepStatistics> &statistics, uint32_t microstep);
  /// The same, step by step.
  Status runSteps(PreparedProgram &program, std::vector<StepStatistics> &statistics, uint32_t microstep);
  /// After step `step` of a program whose slots are poisoned where they die.
  Status poison(const PreparedProgram &program, size_t step);
  /// Takes down what steps took that were only handed over.
  void takeQueuedTimes(PreparedProgram &program, std::vector<StepStatistics> &statistics, uint32_t microstep);
  /// The slot's address after checking that [offset, offset + bytes) lies in it.
  StatusOr<std::byte *> range(uint32_t slot, uint64_t offset, uint64_t bytes) const;
  /// Of a slot in a lower space: where the range begins there, after the same check.
  StatusOr<uint64_t> lowerRange(uint32_t slot, uint64_t offset, uint64_t bytes) const;
  plan::Space spaceOf(uint32_t slot) const {
    return slot < uint32_t(plan.slots_size()) ? plan.slots(int(slot)).space() : plan::DEVICE;
  }
};

Status Executor::Implementation::prepare(uint32_t rank, Communicator *communicator, DocumentBounds documents) {
  if (shape.threads != device.threads())
    return internalError(
        fmt::format("memory was planned for {} threads, the device has {}", shape.threads, device.threads()));
  ZTC_RETURN_IF_ERROR(device.loadKernels(plan));
  PrepareContext context{plan, memory, shape, rank, communicator, board, lower, documents};
  for (const plan::Program &program : plan.programs()) {
    PreparedProgram prepared{.name = program.name(), .steps = {}, .record = &program};
    ProgramStatistics statistic{program.name(), {}};
    context.program = program.name();
    for (const plan::Step &step : program.steps()) {
      if (runsAtAll(step, shape.accumulate)) {
        auto made = device.prepareStep(step, context);
        if (!made.isOk())
          return made.status().withContext(fmt::format("program {}, step '{}'", program.name(), step.name()));
        prepared.steps.push_back(std::move(*made));
      } else {
        prepared.steps.push_back(nullptr);
      }
      prepared.hasStreams |= step.stream() != 0;
      prepared.isOthers.push_back(!executesStep(plan, step, rank, shape.world));
      statistic.steps.push_back({.name = step.name(), .flops = step.flops()});
    }
    prepared.queuedNanoseconds.resize(prepared.steps.size());
    programs.push_back(std::move(prepared));
    statistics.push_back(std::move(statistic));
  }
  return Status::ok();
}

StatusOr<std::byte *> Executor::Implementation::range(uint32_t slot, uint64_t offset, uint64_t bytes) const {
  if (!arena)
    return internalError("the executor has no arena yet");
  if (slot >= memory.slots.size())
    return internalError(fmt::format("slot {} of {}", slot, memory.slots.size()));
  const SlotPlacement &place = memory.slots[slot];
  if (offset > place.bytes || bytes > place.bytes - offset)
    return internalError(fmt::format("{} bytes at {} leave slot {} of {} bytes", bytes, offset, slot, place.bytes));
  return arena + place.offset + offset;
}

StatusOr<uint64_t> Executor::Implementation::lowerRange(uint32_t slot, uint64_t offset, uint64_t bytes) const {
  if (!lower)
    return internalError(fmt::format("slot {} lies outside the arena, and there is no memory there", slot));
  const SlotPlacement &place = memory.slots[slot];
  if (offset > place.bytes || bytes > place.bytes - offset)
    return internalError(fmt::format("{} bytes at {} leave slot {} of {} bytes", bytes, offset, slot, place.bytes));
  return place.offset + offset;
}

Executor::Executor(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Executor::~Executor() = default;

StatusOr<std::unique_ptr<Executor>> Executor::create(const plan::Plan &plan, const MemoryPlan &memory,
                                                     const PlanShape &shape, uint32_t rank, Device &device,
                                                     Communicator *communicator, ProgressBoard *board,
                                                     LowerMemory *lower, DocumentBounds documents) {
  auto implementation = std::make_unique<Implementation>(plan, memory, shape, device, board, lower);
  ZTC_RETURN_IF_ERROR(implementation->prepare(rank, communicator, documents));
  return std::unique_ptr<Executor>(new Executor(std::move(implementation)));
}

Status Executor::initialize(Arena &arena) {
  Implementation &self = *implementation_;
  if (arena.bytes() < self.memory.arenaBytes)
    return internalError(fmt::format("the arena has {} bytes, {} needed", arena.bytes(), self.memory.arenaBytes));
  self.arena = arena.base();
  self.isCarried = false;
  for (PreparedProgram &program : self.programs)
    program.recordings = {}; // they have the addresses of the arena before
  for (PreparedProgram &program : self.programs)
    for (std::unique_ptr<DeviceStep> &step : program.steps)
      if (step)
        ZTC_RETURN_IF_ERROR(step->initialize(self.arena));
  for (const plan::Constant &constant : self.plan.constants())
    ZTC_RETURN_IF_ERROR(
        writeSlot(constant.slot(), 0, constant.data().data(), constant.data().size()).withContext("constant"));
  return self.device.synchronize();
}

void Executor::recordNothing() {
  implementation_->records = false;
}

bool Executor::hasProgram(std::string_view program) const {
  for (const PreparedProgram &candidate : implementation_->programs)
    if (candidate.name == program)
      return true;
  return false;
}

Status Executor::Implementation::run(PreparedProgram &program, std::vector<StepStatistics> &statistics,
                                     uint32_t microstep) {
  const bool isLast = microstep + 1 >= shape.accumulate;
  const bool usesCarried = isCarried && microstep == 0 && program.name == "microstep";
  Recording &recording = program.recordings[(microstep == 0 ? 1 : 0) + (isLast ? 2 : 0) + (usesCarried ? 4 : 0)];
  // The first time the steps are executed one by one: libraries load then what they need.
  ProgramRecorder *const recorder = records ? device.recorder() : nullptr;
  if (!recorder || recording.runs++ == 0)
    return runSteps(program, statistics, microstep);
  if (!recording.program) {
    ZTC_RETURN_IF_ERROR(recorder->beginRecording().withContext(fmt::format("program {}", program.name)));
    const Status noted = runSteps(program, statistics, microstep);
    auto recorded = recorder->endRecording();
    ZTC_RETURN_IF_ERROR(noted);
    if (!recorded.isOk())
      return recorded.status().withContext(fmt::format("program {}", program.name));
    recording.program = std::move(*recorded);
  }
  progress.fetch_add(1, std::memory_order_relaxed);
  if (board)
    board->beginPlanStep(program.name.c_str(), "all steps at once");
  return recording.program->launch().withContext(fmt::format("program {}", program.name));
}

Status Executor::Implementation::runSteps(PreparedProgram &program, std::vector<StepStatistics> &statistics,
                                          uint32_t microstep) {
  uint64_t before = traceClock(), start = before;
  ZTC_RETURN_IF_ERROR(device.beginProgram(program.hasStreams).withContext(fmt::format("program {}", program.name)));
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const plan::Step &step = program.record->steps(int(i));
    if (program.isOthers[i] || !runsInMicrostep(step, microstep, shape.accumulate, isCarried))
      continue;
    progress.fetch_add(1, std::memory_order_relaxed);
    if (board)
      board->beginPlanStep(program.name.c_str(), step.name().c_str());
    const uint32_t label = program.firstLabel + 1 + uint32_t(i);
    TraceRecorder::currentLabel = label;
    Status status = program.steps[i]->execute(microstep);
    if (!status.isOk())
      return status.withContext(fmt::format("program {}, step '{}'", program.name, step.name()));
    if (!program.dying.empty())
      ZTC_RETURN_IF_ERROR(
          poison(program, i).withContext(fmt::format("program {}, step '{}'", program.name, step.name())));
    uint64_t after = traceClock();
    ++statistics[i].count;
    if (step.stream() == 0 && !device.timesSteps()) {
      if (trace)
        trace->record(stepTrack, label, before, after);
      statistics[i].nanoseconds += after - before;
      statistics[i].shortest = std::min(statistics[i].shortest, after - before);
    }
    before = after;
  }
  ZTC_RETURN_IF_ERROR(device.finishProgram(program.hasStreams).withContext(fmt::format("program {}", program.name)));
  if (program.hasStreams || device.timesSteps())
    takeQueuedTimes(program, statistics, microstep);
  if (trace)
    trace->record(programTrack, program.firstLabel, start, traceClock());
  return Status::ok();
}

/// All ones are NaN in every floating-point type.
static constexpr int kPoison = 0xff;

Status Executor::Implementation::poison(const PreparedProgram &program, size_t step) {
  ZTC_RETURN_IF_ERROR(device.synchronize());
  for (uint32_t slot : program.dying[step])
    std::memset(arena + memory.slots[slot].offset, kPoison, memory.slots[slot].bytes);
  return Status::ok();
}

Status Executor::poisonDeadSlots() {
  Implementation &self = *implementation_;
  if (!self.arena || !self.device.threads())
    return internalError("slots are poisoned on a host, where there is an arena");
  for (PreparedProgram &program : self.programs)
    program.dying.resize(program.steps.size());
  for (const SlotEnd &end : slotEnds(self.plan, self.shape)) {
    // Rows of a cache that no token has come to are multiplied by zero.
    if (self.plan.slots(int(end.slot)).slot_class() == plan::CACHE ||
        end.step >= self.programs[end.program].dying.size())
      continue;
    self.programs[end.program].dying[end.step].push_back(end.slot);
    std::memset(self.arena + self.memory.slots[end.slot].offset, kPoison, self.memory.slots[end.slot].bytes);
  }
  return Status::ok();
}

void Executor::Implementation::takeQueuedTimes(PreparedProgram &program, std::vector<StepStatistics> &statistics,
                                               uint32_t microstep) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const plan::Step &step = program.record->steps(int(i));
    if ((step.stream() == 0 && !device.timesSteps()) || program.isOthers[i] ||
        !runsInMicrostep(step, microstep, shape.accumulate, isCarried))
      continue;
    const uint64_t queued = program.steps[i]->queuedNanoseconds();
    const uint64_t spent = queued - std::exchange(program.queuedNanoseconds[i], queued);
    statistics[i].nanoseconds += spent;
    statistics[i].shortest = std::min(statistics[i].shortest, spent);
  }
}

Status Executor::execute(std::string_view program, uint32_t microstep) {
  Implementation &self = *implementation_;
  for (size_t p = 0; p < self.programs.size(); ++p) {
    if (self.programs[p].name != program)
      continue;
    if (!self.arena)
      return internalError("the executor has no arena yet");
    const char *const name = self.programs[p].name.c_str();
    const NamedRange range = program == "microstep" ? NamedRange(name, microstep) : NamedRange(name);
    Status status = self.run(self.programs[p], self.statistics[p].steps, microstep);
    if (!status.isOk() && self.programs[p].hasStreams)
      self.device.abandon(status.message());
    // The micro-step has given the carried slots to others; the update fills them again.
    if (program == "microstep" || program == "update")
      self.isCarried = self.hasCarried && program == "update" && status.isOk();
    return status;
  }
  return invalidArgument(fmt::format("the plan has no program {}", program));
}

Status Executor::writeSlot(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes) {
  if (slot < uint32_t(implementation_->plan.slots_size()) &&
      implementation_->plan.slots(int(slot)).slot_class() == plan::PARAMETERS)
    implementation_->isCarried = false; // a copy of what was there before
  if (const plan::Space space = implementation_->spaceOf(slot); space != plan::DEVICE) {
    // Moves that are still on their way come before it.
    ZTC_RETURN_IF_ERROR(implementation_->device.synchronize());
    ZTC_ASSIGN_OR_RETURN(const uint64_t at, implementation_->lowerRange(slot, offset, bytes));
    return implementation_->lower->write(space, at, from, bytes);
  }
  ZTC_ASSIGN_OR_RETURN(std::byte * to, implementation_->range(slot, offset, bytes));
  return implementation_->device.memory().upload(to, from, bytes);
}

Status Executor::readSlot(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) const {
  if (const plan::Space space = implementation_->spaceOf(slot); space != plan::DEVICE) {
    ZTC_RETURN_IF_ERROR(implementation_->device.synchronize());
    ZTC_ASSIGN_OR_RETURN(const uint64_t at, implementation_->lowerRange(slot, offset, bytes));
    return implementation_->lower->read(space, at, to, bytes);
  }
  ZTC_ASSIGN_OR_RETURN(std::byte * from, implementation_->range(slot, offset, bytes));
  return implementation_->device.memory().download(to, from, bytes);
}

Status Executor::readLater(uint32_t slot, uint64_t offset, uint64_t bytes, ReadBack &readBack, uint64_t to) const {
  ZTC_ASSIGN_OR_RETURN(std::byte * from, implementation_->range(slot, offset, bytes));
  return readBack.enqueue(to, from, bytes);
}

Status Executor::readSlot(ArenaReader &reader, uint32_t slot, uint64_t offset, void *to, uint64_t bytes) const {
  if (const plan::Space space = implementation_->spaceOf(slot); space != plan::DEVICE) {
    // Whoever reads beside programs has seen to it that none under way moves it.
    ZTC_ASSIGN_OR_RETURN(const uint64_t at, implementation_->lowerRange(slot, offset, bytes));
    return implementation_->lower->read(space, at, to, bytes);
  }
  ZTC_ASSIGN_OR_RETURN(std::byte * from, implementation_->range(slot, offset, bytes));
  return reader.read(to, from, bytes);
}

StatusOr<std::unique_ptr<ReadBack>> Executor::createReadBack(uint64_t bytes) const {
  return implementation_->device.memory().createReadBack(bytes);
}

bool Executor::isAsynchronous() const {
  return implementation_->device.isAsynchronous();
}

std::byte *Executor::slotAddress(uint32_t slot) const {
  return implementation_->arena + implementation_->memory.slots[slot].offset;
}
uint64_t Executor::slotBytes(uint32_t slot) const {
  return implementation_->memory.slots[slot].bytes;
}
const MemoryPlan &Executor::memory() const {
  return implementation_->memory;
}
const std::vector<ProgramStatistics> &Executor::statistics() const {
  return implementation_->statistics;
}

void Executor::resetStatistics() {
  for (ProgramStatistics &program : implementation_->statistics)
    for (StepStatistics &step : program.steps)
      step = {.name = std::move(step.name), .flops = step.flops};
}

void Executor::setTrace(TraceRecorder *trace) {
  Implementation &self = *implementation_;
  self.trace = trace;
  self.device.setTrace(trace);
  if (!trace)
    return;
  self.programTrack = trace->addTrack("programs");
  if (!self.device.timesSteps())
    self.stepTrack = trace->addTrack("stream 0: compute");
  for (size_t p = 0; p < self.programs.size(); ++p) {
    const std::string &program = self.programs[p].name;
    self.programs[p].firstLabel = trace->addLabel(program, "program");
    for (const StepStatistics &step : self.statistics[p].steps)
      trace->addLabel(step.name, program);
  }
}

uint64_t Executor::progress() const {
  return implementation_->progress.load(std::memory_order_relaxed);
}

} // namespace ztc
