#include "runtime/Train/Session.h"
#include "runtime/Checkpoint/CheckpointWriter.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/HostMemory.h"
#include "runtime/Core/Random.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/RankComparison.h"
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <sched.h>
#include <thread>
#include <utility>

namespace ztc {

uint32_t availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return uint32_t(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

Status checkMemory(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory, uint64_t freeBytes,
                   uint64_t ranksHere, const std::string &place, const MemoryBeside &beside) {
  const std::string run = shapeText(shape);
  uint64_t needed = memory.arenaBytes + beside.reserveBytes;
  if (plan.budget_bytes() && needed > plan.budget_bytes())
    return resourceExhausted(
        fmt::format("with {} the plan needs {} with its reserve, {} bytes above the budget of {} that it was compiled "
                    "for: compile with the same --gpus, --accumulate and {}, or with a larger --mem",
                    run, formatSize(needed), needed - plan.budget_bytes(), formatSize(plan.budget_bytes()),
                    shape.threads ? "--threads" : "no --threads"));
  uint64_t here = (memory.arenaBytes + beside.lateBytes) * ranksHere;
  if (here > freeBytes)
    return resourceExhausted(
        fmt::format("with {} the plan needs {}{}{}, {} bytes more than the {} that are free: compile "
                    "with a smaller --batch or --seq, or with --mem",
                    run, formatSize(here), beside.lateBytes ? " with what libraries still take" : "",
                    ranksHere > 1 ? fmt::format(" for the {} ranks on {}", ranksHere, place) : "", here - freeBytes,
                    formatSize(freeBytes)));
  return Status::ok();
}

/// A number that ranks on one host share, and the others do not: memory is per boot of a kernel, whatever containers
/// and network namespaces there are. A device's memory has its name beside.
static uint64_t hostNumber() {
  std::FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  char text[64] = "";
  if (file) {
    if (!std::fgets(text, sizeof text, file))
      text[0] = 0;
    std::fclose(file);
  }
  return hashName(text);
}

/// All ranks compare before any of them allocates. `isWarm`: libraries have taken theirs.
static Status checkMemoryTogether(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                                  Device &device, ControlChannel &control, bool isWarm) {
  const StatusOr<uint64_t> freeNow = device.memory().freeBytes();
  ZTC_ASSIGN_OR_RETURN(const std::vector<uint64_t> memories,
                       allGatherValue(control, "hosts", hostNumber() + hashName(device.memory().memoryName())));
  auto sharers = uint64_t(std::ranges::count(memories, memories[control.rank()]));
  const std::string place = device.memory().memoryName().empty() ? "this host" : device.memory().memoryName();
  MemoryBeside beside;
  beside.reserveBytes =
      plan.has_reserve_bytes() ? plan.reserve_bytes() : device.memory().estimatedReserveBytes(shape.world);
  if (isWarm)
    beside.lateBytes =
        device.memory().lateBytes() + device.memory().roundedArenaBytes(memory.arenaBytes) - memory.arenaBytes;
  return agree(&control, "memory",
               freeNow.isOk() ? checkMemory(plan, shape, memory, *freeNow, sharers, place, beside) : freeNow.status());
}

/// What the ranks of a host keep in its memory beside their arenas.
static Status checkHostSpace(const MemoryPlan &memory, Device &device, ControlChannel &control) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<uint64_t> hosts, allGatherValue(control, "hosts", hostNumber()));
  const auto sharers = uint64_t(std::ranges::count(hosts, hosts[control.rank()]));
  const bool isArenaHere = device.memory().memoryName().empty();
  const uint64_t needed = (memory.host.bytes + (isArenaHere ? memory.arenaBytes : 0)) * sharers;
  const uint64_t here = availableMemoryBytes();
  return needed <= here ? Status::ok()
                        : resourceExhausted(fmt::format(
                              "the plan keeps {} of each rank in the host's memory, with {} here that is "
                              "{} bytes more than the {} that are free: compile with a smaller "
                              "--host-mem, or with --disk=DIR",
                              formatSize(memory.host.bytes), sharers == 1 ? "what else it needs" : "all ranks",
                              needed - here, formatSize(here)));
}

/// What lies below the device, reserved before anything is loaded.
static StatusOr<std::unique_ptr<LowerMemory>> createLowerMemory(const plan::Plan &plan, const MemoryPlan &memory,
                                                                Device &device, const RankContext &ranks,
                                                                DiskSpaceOptions disk) {
  if (memory.host.bytes)
    ZTC_RETURN_IF_ERROR(agree(&ranks.control, "host memory", checkHostSpace(memory, device, ranks.control)));
  std::unique_ptr<DiskSpace> file;
  Status made;
  if (memory.disk.bytes) {
    if (const auto compiled = plan.options().find("disk"); disk.folder.empty() && compiled != plan.options().end())
      disk.folder = compiled->second;
    disk.rank = ranks.rank();
    auto created = DiskSpace::create(disk, memory.disk.bytes);
    if (created.isOk())
      file = std::move(*created);
    else
      made = created.status();
  }
  ZTC_RETURN_IF_ERROR(agree(&ranks.control, "disk", made));
  auto lower = LowerMemory::create(memory, device.memory(), std::move(file));
  ZTC_RETURN_IF_ERROR(agree(&ranks.control, "host memory", lower.status()));
  return lower;
}

/// Ranks whose collectives are parts of CUDA graphs and ranks whose are not would wait for each other: all record
/// programs, or none.
static StatusOr<bool> allRecord(Device &device, ControlChannel &control) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<uint8_t> all,
                       allGatherValue(control, "recording programs", uint8_t(device.recorder() != nullptr)));
  return std::ranges::all_of(all, [](uint8_t records) { return records != 0; });
}

/// What a checkpoint goes through that is written beside programs on the host: part of a host process' own memory
/// (stacks, buffers), not of the arena.
static constexpr uint64_t kBesideStagingBytes = uint64_t(1) << 20;
/// Beside a GPU the host has memory enough.
static constexpr uint64_t kDeviceStagingBytes = uint64_t(64) << 20;

Session::~Session() {
  // The board shows names of this plan.
  ranks_.control.progress().forgetNames();
  if (ranks_.communicator)
    ranks_.communicator->forgetMemory();
}

StatusOr<std::unique_ptr<Session>> Session::open(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape,
                                                 RankContext ranks, const AlgorithmPolicy &algorithms,
                                                 const DiskSpaceOptions &disk, DocumentBounds documents) {
  std::unique_ptr<Session> session(new Session(ranks));
  session->loaded_ = std::move(loaded);
  session->device_ = std::move(device);
  session->shape_ = shape;
  session->shape_.threads = session->device_->threads();
  session->shape_.world = ranks.world();
  const plan::Plan &plan = session->plan();
  ZTC_ASSIGN_OR_RETURN(session->memory_, planMemory(plan, session->shape_));
  // What cannot fit is said before anything is loaded.
  ZTC_RETURN_IF_ERROR(
      checkMemoryTogether(plan, session->shape_, session->memory_, *session->device_, ranks.control, false));
  if (session->memory_.host.bytes || session->memory_.disk.bytes) {
    ZTC_ASSIGN_OR_RETURN(session->lower_, createLowerMemory(plan, session->memory_, *session->device_, ranks, disk));
  }
  ZTC_ASSIGN_OR_RETURN(session->executor_,
                       Executor::create(plan, session->memory_, session->shape_, ranks.rank(), *session->device_,
                                        ranks.communicator, &ranks.control.progress(), session->lower_.get(),
                                        documents));
  // Else gradients of different rounding would be added up.
  const DeviceWays ways = session->device_->ways();
  ZTC_RETURN_IF_ERROR(compareRanks(ranks.control, "the devices", {{"on its device", ways.compared, ways.shown}}));
  ZTC_ASSIGN_OR_RETURN(const bool records, allRecord(*session->device_, ranks.control));
  if (!records)
    session->executor_->recordNothing();
  // Libraries first: what they take must not be missing later, in the middle of a step.
  ZTC_RETURN_IF_ERROR(agree(&ranks.control, "libraries", session->device_->memory().warmLibraries(ranks.communicator)));
  ZTC_RETURN_IF_ERROR(
      checkMemoryTogether(plan, session->shape_, session->memory_, *session->device_, ranks.control, true));
  ZTC_ASSIGN_OR_RETURN(session->arena_, session->device_->memory().allocateArena(session->memory_.arenaBytes));
  if (ranks.communicator)
    ZTC_RETURN_IF_ERROR(ranks.communicator->registerMemory(session->arena_->base(), session->arena_->bytes()));
  ZTC_ASSIGN_OR_RETURN(session->algorithms_,
                       chooseAlgorithms(*session->device_, *session->arena_, ranks.control, algorithms));
  ZTC_RETURN_IF_ERROR(session->executor_->initialize(*session->arena_));
  session->stateMemory_ = std::make_unique<ExecutorMemory>(*session->executor_);
  if (onlyUpdateWritesState(plan)) {
    ZTC_ASSIGN_OR_RETURN(session->reader_, session->device_->memory().createReader());
  }
  session->concurrentMemory_ = std::make_unique<ExecutorMemory>(*session->executor_, session->reader_.get());
  uint32_t staging = plan.bindings().staging();
  if (staging != kAbsent && session->device_->memory().memoryName().empty()) {
    session->staging_ = session->concurrentStaging_ = {session->executor_->slotAddress(staging),
                                                       session->executor_->slotBytes(staging)};
    if (session->reader_) { // the slot shares its memory with what programs compute
      session->ownStaging_.resize(kBesideStagingBytes);
      session->concurrentStaging_ = session->ownStaging_;
    }
  } else {
    // The plan has no buffer, or it is where only the device can reach it: then all of the host's cores fill one.
    session->ownStaging_.resize(session->device_->memory().memoryName().empty() ? kMinimumStagingBytes
                                                                                : kDeviceStagingBytes);
    session->staging_ = session->concurrentStaging_ = session->ownStaging_;
  }
  return session;
}

} // namespace ztc
