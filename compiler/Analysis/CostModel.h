// How long a step takes, by what it computes and moves: rates of a machine, no measurement. Good for comparing two
// plans of one model; whole steps of well shaped models come within some tens of percent.
#pragma once
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace ztc {

/// What one rank reaches, not what its data sheet says.
struct MachineRates {
  const char *name;
  double productFlops;       ///< products in f32, per second
  double narrowProductFlops; ///< products in bf16 and f16
  double fp8ProductFlops;    ///< products of fp8 codes
  double attentionShare;     ///< of these, what attention reaches
  double kernelFlops;        ///< generated kernels
  double memoryBytes;        ///< read and written per second
  double wireBytes;          ///< sent per second in a collective
  double launchSeconds;      ///< of any step
  double hostLinkBytes;      ///< moved per second between the device and the host's memory, one way at a time
  double diskLinkBytes;      ///< the same of a disk: reads and writes of one NVMe drive in turn
  double hostMemoryBytes;    ///< read and written per second by the host's cores of a rank, in their memory
};

/// A host with AVX2 and `threads` threads per rank; a GPU of the Hopper class (H100 SXM) on NVLink.
MachineRates hostRates(unsigned threads);
MachineRates gpuRates();
/// The rates of what a plan is laid out for: of the GPU in use (GpuModels.h) and of links that were measured.
MachineRates ratesOf(const PlanShape &shape);

/// What kind of work the flops are.
enum class Work { Product, NarrowProduct, Fp8Product, Attention, NarrowAttention, Kernel };

/// The longer of computing and moving.
double workSeconds(const MachineRates &rates, Work work, double flops, double bytes);

/// One execution of a step. What only sends takes its time on the wire.
double stepSeconds(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const plan::Step &step,
                   const MachineRates &rates);

/// One optimizer step, shape.accumulate micro-steps and the update: the longer of what is computed and what is sent,
/// and what each program takes beyond its computation for moves between spaces: they are in one order, and each stream
/// waits for the other as the plan's events say. Evaluation and generation are not in it.
double planSeconds(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const MachineRates &rates);

/// Calls `visit` for each step of an optimizer step, with how often it runs in it and whether that is in `microstep`.
void forEachTrainingStep(const plan::Plan &plan, const PlanShape &shape,
                         llvm::function_ref<void(const plan::Step &, unsigned times, bool isMicrostep)> visit);

} // namespace ztc
