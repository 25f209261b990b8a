#include "compiler/Analysis/CostModel.h"
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Analysis/GpuSeconds.h"
#include "compiler/Analysis/LinksInUse.h"
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Memory/StepBytes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>

namespace ztc {

double AttentionShare::of(uint64_t headDim, uint64_t tokens) const {
  const double heads = std::min(1.0, ofShortHeads + (1 - ofShortHeads) * double(headDim) / 128);
  return ofLongRows * heads * double(tokens) / (double(tokens) + halfwayTokens);
}

MachineRates hostRates(unsigned threads) {
  const double t = threads;
  // Eight cores fill the memory channels.
  const double memory = 14e9 * std::min(t, 8.0);
  constexpr AttentionShare kHalf{0.5, 1, 0};
  MachineRates rates{};
  rates.name = "host";
  // Of one core: f32 products with AVX2; narrow ones and codes are widened first.
  rates.productFlops = rates.tf32ProductFlops = 90e9 * t;
  rates.narrowProductFlops = 80e9 * t;
  rates.fp8ProductFlops = 60e9 * t;
  // 32 groups of some 128 rows beside one product: 0.77 to 1.1 (tests/bench/README.md).
  rates.groupedShare = 0.85;
  rates.attention = rates.attentionGradient = rates.ownAttention = rates.ownAttentionGradient = kHalf;
  rates.kernelFlops = 8e9 * t;
  rates.memoryBytes = rates.hostMemoryBytes = memory;
  rates.kernelShare = 1;
  rates.wireBytes = 1.5e9;
  rates.launchSeconds = 2e-6;
  rates.hostLinkBytes = 6e9;
  rates.diskLinkBytes = 1.5e9;
  return rates;
}

// As an H200 did in its runs of 2026-11-28, at its power limit, by the ratio of memory rates of an H100; where none was
// run, in the proportions of before. Where each figure is from: tests/gpu/README.md, "On paper".
MachineRates gpuRates() {
  MachineRates rates{};
  rates.name = "H100 class";
  rates.productFlops = 50e12;
  rates.tf32ProductFlops = 400e12;
  rates.narrowProductFlops = 772e12;
  rates.fp8ProductFlops = 1567e12;
  rates.groupedShare = 0.55; // a guess: own kernels, by instructions of a warp
  rates.attention = {0.73, 0.69, 1015};
  rates.attentionGradient = {0.424, 0.76, 1000};
  rates.scoresGradient = {0.52, 0.47, 620};
  rates.anyOrderGradient = {0.737, 0.62, 1490};
  rates.ownAttention = {0.246, 0.61, 0};
  rates.ownAttentionGradient = {0.19, 0.54, 0};
  rates.kernelFlops = 20e12;
  rates.memoryBytes = 2.95e12;
  rates.kernelShare = 0.9;
  rates.wireBytes = 350e9;
  rates.launchSeconds = 1.8e-6;
  rates.hostLinkBytes = 50e9;
  rates.diskLinkBytes = 5e9;
  // What a rank has where four share a socket of today.
  rates.hostMemoryBytes = 80e9;
  rates.multiprocessors = 132;
  rates.cacheBytes = 50e6;
  return rates;
}

MachineRates ratesOf(const PlanShape &shape) {
  const GpuModel *model = shape.threads ? nullptr : gpuModelInUse();
  MachineRates rates = shape.threads ? hostRates(shape.threads) : model ? ratesOf(*model) : gpuRates();
  if (const MeasuredLink &link = linkInUse(shape, false); !link.kind.empty())
    rates.hostLinkBytes = link.bothBytesPerSecond();
  if (const MeasuredLink &link = linkInUse(shape, true); !link.kind.empty())
    rates.diskLinkBytes = link.bothBytesPerSecond();
  if (const double bytes = measuredCoreBytes(); bytes > 0 && !shape.threads)
    rates.hostMemoryBytes = bytes;
  return rates;
}

double workSeconds(const MachineRates &rates, Work work, double flops, double bytes) {
  double rate = rates.kernelFlops, memory = rates.memoryBytes;
  if (work == Work::Product || work == Work::Attention)
    rate = rates.productFlops;
  else if (work == Work::Fp8Product)
    rate = rates.fp8ProductFlops;
  else if (work != Work::Kernel)
    rate = rates.narrowProductFlops;
  else
    memory *= rates.kernelShare;
  if (work == Work::Attention || work == Work::NarrowAttention)
    rate *= rates.attention.ofLongRows;
  return rates.launchSeconds + std::max(flops / rate, bytes / memory);
}

/// Shards that a rank sends.
static double collectiveBytes(const plan::Plan &plan, const PlanShape &shape, const plan::Collective &collective) {
  double others = shape.world - 1;
  if (collective.kind() == plan::Collective::ALL_REDUCE || collective.kind() == plan::Collective::ALL_REDUCE_MAX ||
      collective.bucket() >= uint32_t(plan.buckets_size()))
    return others * dataTypeBytes(collective.type());
  const plan::Bucket &bucket = plan.buckets(int(collective.bucket()));
  return others * double(shardElements(bucket.elements(), shape.world, bucket.quantum())) *
         dataTypeBytes(collective.type());
}

double stepSeconds(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const plan::Step &step,
                   const MachineRates &rates) {
  const StepWork kind = workOf(plan, step);
  if (rates.multiprocessors && isComputedOnDevice(kind)) {
    const GpuSeconds gpu = gpuStepSeconds(plan, step, double(stepBytes(plan, memory, shape, step)), rates,
                                          {.microSteps = shape.accumulate});
    return gpu.launches * rates.launchSeconds + gpu.work;
  }
  const double flops = double(step.flops()) / (step.has_grouped_gemm() ? rates.groupedShare : 1);
  const auto work = [&](Work kind) {
    return workSeconds(rates, kind, flops, double(stepBytes(plan, memory, shape, step)));
  };
  switch (kind) {
  case StepWork::None:
    return 0;
  case StepWork::Wire:
    return shape.world == 1 ? 0
                            : rates.launchSeconds + collectiveBytes(plan, shape, step.collective()) / rates.wireBytes;
  case StepWork::HostLink:
    return rates.launchSeconds + double(stepBytes(plan, memory, shape, step)) / rates.hostLinkBytes;
  case StepWork::DiskLink:
    return rates.launchSeconds + double(stepBytes(plan, memory, shape, step)) / rates.diskLinkBytes;
  case StepWork::HostKernel:
    return rates.launchSeconds + double(stepBytes(plan, memory, shape, step)) / rates.hostMemoryBytes;
  case StepWork::Kernel:
    return work(Work::Kernel);
  case StepWork::Product:
    return work(Work::Product);
  case StepWork::NarrowProduct:
    return work(Work::NarrowProduct);
  case StepWork::Fp8Product:
    return work(Work::Fp8Product);
  case StepWork::Attention:
    return work(Work::Attention);
  case StepWork::NarrowAttention:
    return work(Work::NarrowAttention);
  }
  return 0;
}

void forEachTrainingStep(const plan::Plan &plan, const PlanShape &shape,
                         llvm::function_ref<void(const plan::Step &, unsigned, bool)> visit) {
  for (const plan::Program &program : plan.programs()) {
    bool isMicrostep = program.name() == "microstep";
    if (!isMicrostep && program.name() != "update")
      continue;
    for (const plan::Step &step : program.steps())
      visit(step, isMicrostep ? runsPerStep(step, shape.accumulate) : 1, isMicrostep);
  }
}

double planSeconds(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape,
                   const MachineRates &rates) {
  double computed = 0, sent = 0, uncovered = 0;
  for (bool isMicrostep : {true, false}) {
    // Moves have nothing but their own program's computation to hide behind: each ends when its moves do. What is sent
    // takes no time here, but passes on what it waits for.
    std::array<double, 3> clocks{}; // by stream
    llvm::DenseMap<uint32_t, double> events;
    double inProgram = 0;
    forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool inMicrostep) {
      if (inMicrostep != isMicrostep || times == 0)
        return;
      double &clock = clocks[std::min<size_t>(step.stream(), 2)];
      if (step.has_record())
        events[step.record().event()] = clock;
      if (step.has_wait())
        clock = std::max(clock, events.lookup(step.wait().event()));
      const double one = times * busiestShare(plan, step, shape.world) * stepSeconds(plan, memory, shape, step, rates);
      if (step.stream() == 1)
        sent += one;
      else
        clock += one;
      if (step.stream() == 0)
        inProgram += one;
    });
    computed += inProgram;
    uncovered += std::max(clocks[0], clocks[2]) - inProgram;
  }
  return std::max(computed, sent) + uncovered;
}

} // namespace ztc
