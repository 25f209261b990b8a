#include "compiler/Report/KernelUses.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Format/StepText.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

namespace ztc::report {
namespace {

class Collector {
public:
  Collector(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory)
      : plan(plan), shape(shape), memory(memory) {
    for (int i = 0; i < plan.kernels_size(); ++i) {
      uses.kernels.push_back({});
      uses.kernels.back().what = plan.kernels(i).name();
      uses.kernels.back().kernel = i;
    }
    for (const plan::Program &program : plan.programs())
      for (const plan::Step &step : program.steps())
        add(program.name(), step);
    for (const KernelUse &call : uses.calls)
      attribute(call);
  }

  KernelUses uses;

private:
  void add(const std::string &program, const plan::Step &step) {
    const StepDefinition *definition = definitionOf(step);
    if (!runsAtAll(step, shape.accumulate) || !definition || definition->work(plan, step) == StepWork::None)
      return;
    if (step.has_launch() && step.launch().kernel() < uses.kernels.size()) {
      count(uses.kernels[step.launch().kernel()], program, step);
      // The adding variant runs instead, in later micro-steps.
      if (step.launch().accumulate() != plan::OVERWRITE && step.launch().kernel_add() < uses.kernels.size())
        ++uses.kernels[step.launch().kernel_add()].launches[program];
      return;
    }
    std::string what = stepCallText(plan, step);
    auto [found, isNew] = index.try_emplace(what, uses.calls.size());
    if (isNew) {
      uses.calls.push_back({});
      KernelUse &call = uses.calls.back();
      call.what = what;
      call.reason = step.reason();
      call.executions = definition->executions(plan, step, hasTarget(/*gpu=*/false), hasTarget(/*gpu=*/true));
    }
    count(uses.calls[found->second], program, step);
  }

  bool hasTarget(bool gpu) const {
    return llvm::any_of(plan.images(), [gpu](const plan::Image &image) { return isGpuTarget(image.target()) == gpu; });
  }

  /// Tells the kernels that execute a call.
  void attribute(const KernelUse &call) {
    for (const CallExecution &execution : call.executions)
      for (uint32_t kernel : execution.kernels) {
        if (kernel >= uses.kernels.size())
          continue;
        uses.kernels[kernel].calledBy.insert(call.what.substr(0, call.what.find(' ')));
        uses.kernels[kernel].callBytes += call.bytes;
        uses.kernels[kernel].callFlops += call.flops;
      }
  }

  void count(KernelUse &use, const std::string &program, const plan::Step &step) {
    ++use.launches[program];
    if (program != "microstep" && program != "update")
      return;
    use.bytes += stepBytes(plan, memory, shape, step);
    use.flops += step.flops();
  }

  const plan::Plan &plan;
  const PlanShape &shape;
  const MemoryPlan &memory;
  std::map<std::string, size_t> index;
};

} // namespace

KernelUses collectKernelUses(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory) {
  return Collector(plan, shape, memory).uses;
}

std::optional<Occupancy> occupancyOf(const plan::Kernel::Version &version) {
  const DeviceTarget *found = findDeviceTarget(version.target());
  if (!found || !version.registers() || !version.block_threads())
    return std::nullopt;
  const unsigned warps = llvm::divideCeil(version.block_threads(), 32);
  // Registers are given out to warps by 256; the system keeps 1 KiB of shared memory for each block.
  const struct {
    unsigned blocks;
    const char *name;
  } limits[] = {{found->threads / (warps * 32), "threads"},
                {found->blocks, "blocks"},
                {65536 / unsigned(llvm::alignTo(version.registers() * 32, 256)) / warps, "registers"},
                {found->sharedKibibytes * 1024 / (version.shared_bytes() + 1024), "shared memory"}};
  const auto *least = llvm::min_element(limits, [](const auto &a, const auto &b) { return a.blocks < b.blocks; });
  return Occupancy{least->blocks, 100 * least->blocks * warps * 32 / found->threads, least->name};
}

} // namespace ztc::report
