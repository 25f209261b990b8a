// `ztc inspect --kernels`: what runs, how often, and how much it moves and computes.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/StepText.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc {
namespace {

/// Of one kernel or of equal library calls.
struct Use {
  std::string what, reason;
  int kernel = -1;                          ///< -1: a library call
  std::map<std::string, unsigned> launches; ///< by program
  uint64_t bytes = 0, flops = 0;            ///< of one microstep and one update
};

std::string countText(const Use &use) {
  std::string text;
  for (const auto &[program, count] : use.launches)
    text += formatv("{0}{1} {2}", text.empty() ? "" : ", ", program, count);
  return text.empty() ? "never launched" : text;
}

std::string amountText(uint64_t bytes, uint64_t flops) {
  return formatv("{0,10} {1,10:f3} GFLOP", formatSize(bytes), double(flops) / 1e9);
}

class Uses {
public:
  Uses(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory)
      : plan(plan), shape(shape), memory(memory) {
    for (int i = 0; i < plan.kernels_size(); ++i) {
      kernels.push_back({});
      kernels.back().what = plan.kernels(i).name();
      kernels.back().kernel = i;
    }
    for (const plan::Program &program : plan.programs())
      for (const plan::Step &step : program.steps())
        add(program.name(), step);
  }

  std::vector<Use> kernels; ///< by the plan's index
  std::vector<Use> calls;

private:
  void add(const std::string &program, const plan::Step &step) {
    if (step.has_record() || step.has_wait() || step.has_transfer())
      return;
    if (step.has_launch() && step.launch().kernel() < kernels.size()) {
      count(kernels[step.launch().kernel()], program, step);
      // The adding variant runs instead, in later micro-steps.
      if (step.launch().accumulate() != plan::OVERWRITE && step.launch().kernel_add() < kernels.size())
        ++kernels[step.launch().kernel_add()].launches[program];
      return;
    }
    std::string what = stepCallText(plan, step);
    auto [found, isNew] = index.try_emplace(what, calls.size());
    if (isNew) {
      calls.push_back({});
      calls.back().what = what;
      calls.back().reason = step.reason();
    }
    count(calls[found->second], program, step);
  }

  void count(Use &use, const std::string &program, const plan::Step &step) {
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

void sortUses(std::vector<Use> &uses, KernelOrder order) {
  llvm::sort(uses, [order](const Use &a, const Use &b) {
    uint64_t amountA = order == KernelOrder::Flops ? a.flops : a.bytes;
    uint64_t amountB = order == KernelOrder::Flops ? b.flops : b.bytes;
    return amountA != amountB ? amountA > amountB : a.what < b.what;
  });
}

void printKernel(raw_ostream &out, const plan::Kernel &kernel, const Use &use) {
  // Service kernels are called by attention and by the loss, not launched.
  out << formatv("  {0,-40} {1,-18} {2}  {3};", kernel.name(), kernel.form(), amountText(use.bytes, use.flops),
                 kernel.form() == "service" ? "called by library steps" : countText(use));
  for (const plan::Kernel::Version &version : kernel.versions())
    out << " " << version.target();
  out << "\n";
  for (const plan::Kernel::Version &version : kernel.versions())
    if (version.block_threads())
      out << formatv(
          "      {0}: {1} threads a block, {2} units a block, {3}, {4} of shared memory, {5} of local memory\n",
          version.target(), version.block_threads(), version.units_per_block(),
          version.registers() ? formatv("{0} registers", version.registers()).str() : "registers by the driver",
          formatSize(version.shared_bytes()), formatSize(version.local_bytes()));
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(kernel.text()).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines)
    out << "      " << line << "\n";
}

} // namespace

void printPlanKernels(raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                      KernelOrder order) {
  Uses uses(plan, shape, memory);
  sortUses(uses.kernels, order);
  sortUses(uses.calls, order);
  uint64_t bytes = 0, flops = 0;
  for (const std::vector<Use> &list : {uses.kernels, uses.calls})
    for (const Use &use : list) {
      bytes += use.bytes;
      flops += use.flops;
    }
  out << "bytes and flops: of one micro-step and one update, all launches together; operands once each, without the "
         "scratch of library calls\n";
  out << formatv("  {0,-59} {1}\n", "all", amountText(bytes, flops));
  out << "generated kernels\n";
  for (const Use &use : uses.kernels)
    printKernel(out, plan.kernels(use.kernel), use);
  out << "library calls\n";
  for (const Use &use : uses.calls)
    out << formatv("  {0,-59} {1}  {2}{3}{4}\n", use.what, amountText(use.bytes, use.flops), countText(use),
                   use.reason.empty() ? "" : ": ", use.reason);
  out << "images\n";
  for (const plan::Image &image : plan.images())
    out << formatv("  {0,-12} {1} bytes\n", image.target(), image.data().size());
}

} // namespace ztc
