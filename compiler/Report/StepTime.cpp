// `ztc inspect --time`: what a step takes by kinds of work.
#include "compiler/Analysis/GpuSeconds.h"
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <tuple>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {
namespace {

/// Of an optimizer step on a GPU: what attention's gradient takes less where it may add up in any order.
double secondsOfOrder(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                      const MachineRates &rates) {
  double seconds = 0;
  forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool) {
    if (!step.attention().grad() || !rates.multiprocessors)
      return;
    const double bytes = double(stepBytes(plan, memory, shape, step));
    const GpuRun ordered{shape.accumulate}, anyOrder{shape.accumulate, /*deterministic=*/false};
    seconds += times * (gpuStepSeconds(plan, step, bytes, rates, ordered).work -
                        gpuStepSeconds(plan, step, bytes, rates, anyOrder).work);
  });
  return seconds;
}

/// Of an optimizer step.
struct KindTime {
  double seconds = 0; ///< without launches
  double launches = 0, bytes = 0, flops = 0;
};

/// In the order in which kinds are first met.
using Kinds = llvm::MapVector<llvm::StringRef, KindTime>;

/// What the device computes, by the family of its steps; of the update, which has few, as one; what is sent and moved
/// by itself.
Kinds kindsOf(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory, const MachineRates &rates) {
  Kinds kinds;
  forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool isMicrostep) {
    const StepWork work = workOf(plan, step);
    if (work == StepWork::None || times == 0 || (work == StepWork::Wire && shape.world == 1))
      return;
    const bool computed = isComputedOnDevice(work);
    KindTime &kind = kinds[computed && !isMicrostep ? "update" : definitionOf(step)->family(step)];
    const double runs = times * busiestShare(plan, step, shape.world);
    const double bytes = double(stepBytes(plan, memory, shape, step));
    const unsigned launches = computed && rates.multiprocessors ? gpuStepSeconds(plan, step, bytes, rates).launches : 1;
    kind.seconds += runs * (stepSeconds(plan, memory, shape, step, rates) - launches * rates.launchSeconds);
    kind.launches += runs * launches;
    kind.bytes += runs * bytes;
    kind.flops += runs * double(step.flops());
  });
  return kinds;
}

std::string rate(double amount, double seconds, double unit) {
  return amount > 0 && seconds > 0 ? formatv("{0:F1}", amount / seconds / unit).str() : "";
}

} // namespace

void printPlanTime(raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory) {
  const MachineRates rates = ratesOf(shape);
  const double step = planSeconds(plan, memory, shape, rates);
  const double tokens = double(plan.model().batch() * plan.model().seq()) * shape.accumulate * shape.world;
  out << formatv("{0} of {1} rank{2}, {3} micro-step{4} of {5} rows of {6} tokens: {7:F1} ms a step, {8:N} tokens/s by "
                 "the cost model\n",
                 rates.name, shape.world, shape.world == 1 ? "" : "s", shape.accumulate,
                 shape.accumulate == 1 ? "" : "s", plan.model().batch(), plan.model().seq(), step * 1e3,
                 uint64_t(tokens / step));
  out << "  share   ms/step  launches        moved     GB/s     TFLOP  TFLOP/s  what\n";
  const auto line = [&](llvm::StringRef what, const KindTime &kind) {
    out << formatv("{0,5:F1} % {1,9:F3} {2,9} {3,12} {4,8} {5,9:F3} {6,8}  {7}\n", 100 * kind.seconds / step,
                   kind.seconds * 1e3, std::llround(kind.launches), formatSize(uint64_t(kind.bytes)),
                   rate(kind.bytes, kind.seconds, 1e9), kind.flops / 1e12, rate(kind.flops, kind.seconds, 1e12), what);
  };
  Kinds kinds = kindsOf(plan, shape, memory, rates);
  auto sorted = kinds.takeVector();
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return std::tuple(-a.second.seconds, a.first) < std::tuple(-b.second.seconds, b.first);
  });
  double launches = 0;
  for (const auto &[what, kind] : sorted) {
    line(what, kind);
    launches += kind.launches;
  }
  const double waiting = launches * rates.launchSeconds;
  out << formatv("{0,5:F1} % {1,9:F3} {2,9} {3,40}  launches, {4:F1} us each\n", 100 * waiting / step, waiting * 1e3,
                 std::llround(launches), "", rates.launchSeconds * 1e6);
  if (const double less = secondsOfOrder(plan, shape, memory, rates); less > 0)
    out << formatv("ztc-run --deterministic=no: {0:F1} ms less of attention gradient, {1:N} tokens/s\n", less * 1e3,
                   uint64_t(tokens / (step - less)));
  if (shape.world > 1 || memory.host.bytes || memory.disk.bytes)
    out << "what is sent or moved is counted in the step only where computing does not hide it\n";
}

} // namespace ztc::report
