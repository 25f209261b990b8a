// Executes what a plan has a GPU compute over the stand-ins, step by step: fused kernels, and library calls with
// theirs. Made for builds with sanitizers, see tests/e2e/sanitizers.py. AddressSanitizer guards all memory but the
// operands of the step that runs. Prints each step and whether ThreadSanitizer found a race in it; fails where no step
// runs a library call's kernel.
//
//     gpu-steps PLAN
//     gpu-steps PLAN STEP                 this step or kernel alone
//     gpu-steps PLAN STEP read|write      with guards on the ends of what it reads or writes, too
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/Planner.h"
#include "tests/e2e/KernelOperands.h"
#include "tests/standin/ProcessLibraries.h"
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <set>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

using namespace ztc;

static int reports = 0;
/// ThreadSanitizer calls this with every report.
extern "C" void __tsan_on_report(void *) {
  ++reports;
}

namespace {

constexpr PlanShape kShape = {.world = 1, .accumulate = 2, .threads = 0};

/// One step alone, and what of it is guarded at its end.
struct Only {
  std::string name;       ///< empty: all steps
  std::string guardsEnds; ///< "read", "write", or empty: nothing
};

/// Places the slots of a step alone, far enough from one another that no kernel reaches the next by accident.
MemoryPlan placeSlots(const plan::Step &step, MemoryPlan memory) {
  constexpr uint64_t kBetween = 4096, kAlignment = 256;
  memory.arenaBytes = kBetween;
  std::set<uint32_t> placed;
  for (const plan::Operand &operand : step.operands())
    if (placed.insert(operand.slot()).second) {
      SlotPlacement &slot = memory.slots[operand.slot()];
      slot.offset = memory.arenaBytes;
      memory.arenaBytes += (slot.bytes + kAlignment - 1) / kAlignment * kAlignment + kBetween;
    }
  return memory;
}

class Steps {
public:
  Steps(const plan::Plan &plan, const MemoryPlan &memory, Device &device, Only only)
      : plan_(plan), memory_(memory), device_(device), only_(std::move(only)) {}

  Status run() {
    for (const plan::Program &program : plan_.programs())
      for (const plan::Step &step : program.steps())
        if (runsAtAll(step, kShape.accumulate) && isNew(step))
          ZTC_RETURN_IF_ERROR(execute(step).withContext("step '" + step.name() + "'"));
    if (!only_.name.empty())
      return executed_ ? Status::ok() : notFound("the plan has no step " + only_.name);
    for (int i = 0; i < plan_.kernels_size(); ++i) // of fused kernels there may be variants that no step launches
      if (plan_.kernels(i).form() == "service" && isForStandIns(plan_.kernels(i)) && !kernels_.contains(uint32_t(i)))
        return notFound("no step of the plan runs kernel " + plan_.kernels(i).name());
    return Status::ok();
  }

private:
  static bool isForStandIns(const plan::Kernel &kernel) {
    return std::any_of(kernel.versions().begin(), kernel.versions().end(),
                       [](const plan::Kernel::Version &version) { return version.target() == "simt"; });
  }

  /// Of a launch its kernels, of a library call those that it names.
  static std::vector<uint32_t> kernelsOf(const plan::Step &step) {
    const auto all = [](const auto &call) { return std::vector<uint32_t>(call.begin(), call.end()); };
    switch (step.kind_case()) {
    case plan::Step::kLaunch:
      if (step.launch().accumulate() != plan::OVERWRITE)
        return {step.launch().kernel(), step.launch().kernel_add()};
      return {step.launch().kernel()};
    case plan::Step::kAttention:
      return all(step.attention().gpu_kernels());
    case plan::Step::kLinearCrossEntropy:
      return all(step.linear_cross_entropy().gpu_kernels());
    case plan::Step::kGather:
      return all(step.gather().gpu_kernels());
    case plan::Step::kScatterAdd:
      return all(step.scatter_add().gpu_kernels());
    case plan::Step::kNarrow:
      return all(step.narrow().gpu_kernels());
    default:
      return {};
    }
  }

  /// The launch's kernel, the library call's step.
  std::string nameOf(const plan::Step &step) const {
    return step.has_launch() ? plan_.kernels(int(step.launch().kernel())).name() : step.name();
  }

  /// Equal layers make equal steps: one of them is enough.
  bool isNew(const plan::Step &step) {
    const bool computes = !step.has_collective() && !step.has_record() && !step.has_wait() && !step.has_transfer();
    if (!computes || (!only_.name.empty() && only_.name != nameOf(step)))
      return false;
    plan::Step call = step;
    call.clear_name();
    for (plan::Operand &operand : *call.mutable_operands())
      operand.clear_slot();
    const bool isFirst = calls_.insert(call.SerializeAsString()).second;
    for (uint32_t kernel : kernelsOf(step))
      kernels_.insert(kernel);
    return isFirst;
  }

  /// Guards everything but the operands.
  void guard(const plan::Step &step, const MemoryPlan &memory, const Arena &arena) const {
    ASAN_POISON_MEMORY_REGION(arena.base(), arena.bytes());
    for (const plan::Operand &operand : step.operands()) {
      const SlotPlacement &slot = memory.slots[operand.slot()];
      uint64_t bytes = operand.bytes() ? operand.bytes() : slot.bytes - operand.offset();
      if (only_.guardsEnds == (operand.access() == plan::Operand::READ ? "read" : "write"))
        bytes -= std::min<uint64_t>(bytes, 4);
      ASAN_UNPOISON_MEMORY_REGION(arena.base() + slot.offset + operand.offset(), bytes);
    }
  }

  Status execute(const plan::Step &step) {
    const MemoryPlan memory = placeSlots(step, memory_);
    auto prepared = device_.prepareStep(step, {.plan = plan_, .memory = memory, .shape = kShape});
    ZTC_RETURN_IF_ERROR(prepared.status());
    ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Arena> arena, device_.memory().allocateArena(memory.arenaBytes));
    ZTC_RETURN_IF_ERROR((*prepared)->initialize(arena->base()));
    ZTC_RETURN_IF_ERROR(test::giveOperands(step, plan_, memory, device_, *arena));
    ZTC_RETURN_IF_ERROR(device_.synchronize());
    guard(step, memory, *arena);
    const int before = reports;
    for (uint32_t microstep = 0; microstep < kShape.accumulate; ++microstep)
      ZTC_RETURN_IF_ERROR((*prepared)->execute(microstep));
    ZTC_RETURN_IF_ERROR(device_.synchronize());
    ASAN_UNPOISON_MEMORY_REGION(arena->base(), arena->bytes());
    ++executed_;
    std::printf("%s %s\n", reports == before ? "clean" : "race", nameOf(step).c_str());
    return Status::ok();
  }

  const plan::Plan &plan_;
  const MemoryPlan &memory_;
  Device &device_;
  const Only only_;
  std::set<std::string> calls_;
  std::set<uint32_t> kernels_; ///< seen in steps
  int executed_ = 0;
};

Status runAll(const char *path, Only only) {
  ZTC_ASSIGN_OR_RETURN(const LoadedPlan loaded, readPlanFile(path));
  ZTC_ASSIGN_OR_RETURN(const MemoryPlan memory, planMemory(loaded.plan, kShape));
  CudaDeviceOptions options;
  options.libraries = cudaLibraryPathsOfProcess();
  if (options.libraries.standIns.empty())
    return failedPrecondition("ZTC_STAND_INS names no folder");
  options.libraries.useCudnn = false;
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, createCudaDevice(std::move(options)));
  ZTC_RETURN_IF_ERROR(device->loadKernels(loaded.plan));
  return Steps(loaded.plan, memory, *device, std::move(only)).run();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 4)
    return 2;
  const Status status = runAll(argv[1], {argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : ""});
  if (!status.isOk())
    std::fprintf(stderr, "gpu-steps: error: %s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
