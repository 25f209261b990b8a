// Executes every generated kernel of a plan on a GPU, each with the same operands on every machine, and prints what
// came out as one line each. Over the stand-ins of tests/standin the lines are those of the SIMT engine: equal lines
// are equal bits.
//
//     gpu-kernels PLAN
#include "runtime/Core/Sha256.h"
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/Planner.h"
#include "tests/e2e/KernelOperands.h"
#include "tests/standin/ProcessLibraries.h"
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

using namespace ztc;

namespace {

constexpr PlanShape kShape = {.world = 1, .accumulate = 1, .threads = 0};

struct Executed {
  const plan::Plan &plan;
  const MemoryPlan &memory;
  Device &device;
  Arena &arena;

  /// A digest of all that the step has written.
  StatusOr<std::string> results(const plan::Step &step) {
    Sha256 digest;
    for (const plan::Operand &operand : step.operands()) {
      if (operand.access() == plan::Operand::READ)
        continue;
      const SlotPlacement &place = memory.slots[operand.slot()];
      std::vector<std::byte> bytes(place.bytes);
      ZTC_RETURN_IF_ERROR(device.memory().download(bytes.data(), arena.base() + place.offset, place.bytes));
      digest.update(bytes.data(), bytes.size());
    }
    return Sha256::hex(digest.finish());
  }

  Status run(const plan::Program &program, const plan::Step &step) {
    auto prepared = device.prepareStep(step, {.plan = plan, .memory = memory, .shape = kShape});
    ZTC_RETURN_IF_ERROR(prepared.status());
    ZTC_RETURN_IF_ERROR((*prepared)->initialize(arena.base()));
    ZTC_RETURN_IF_ERROR(test::giveOperands(step, plan, memory, device, arena));
    for (uint32_t microstep = 0; microstep < (step.launch().accumulate() == plan::OVERWRITE ? 1u : 2u); ++microstep)
      ZTC_RETURN_IF_ERROR((*prepared)->execute(microstep));
    ZTC_ASSIGN_OR_RETURN(const std::string digest, results(step));
    std::printf("%s %s: %s\n", program.name().c_str(), plan.kernels(int(step.launch().kernel())).name().c_str(),
                digest.substr(0, 24).c_str());
    return Status::ok();
  }
};

Status runAll(const char *path) {
  ZTC_ASSIGN_OR_RETURN(const LoadedPlan loaded, readPlanFile(path));
  const plan::Plan &plan = loaded.plan;
  ZTC_ASSIGN_OR_RETURN(const MemoryPlan memory, planMemory(plan, kShape));
  CudaDeviceOptions options;
  options.libraries = cudaLibraryPathsOfProcess();
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, createCudaDevice(std::move(options)));
  ZTC_RETURN_IF_ERROR(device->loadKernels(plan));
  std::fprintf(stderr, "%s\n", device->description().c_str());
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Arena> arena, device->memory().allocateArena(memory.arenaBytes));
  std::set<uint32_t> done;
  for (const plan::Program &program : plan.programs())
    for (const plan::Step &step : program.steps())
      if (runsAtAll(step, kShape.accumulate) && step.has_launch() && done.insert(step.launch().kernel()).second)
        ZTC_RETURN_IF_ERROR(
            Executed(plan, memory, *device, *arena).run(program, step).withContext("step '" + step.name() + "'"));
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  const Status status = runAll(argv[1]);
  if (!status.isOk())
    std::fprintf(stderr, "gpu-kernels: error: %s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
