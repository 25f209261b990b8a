// How long a step takes, by what it computes and moves: rates of a machine, no measurement of this plan. On a GPU the
// shapes of products and the lengths of attention count as well (GpuSeconds.h). Good for comparing two plans of one
// model; whole steps of well shaped models come within some tens of percent on a host.
#pragma once
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace ztc {

/// The share of the rate of products that attention reaches, by the lengths of its heads and of its rows of tokens.
struct AttentionShare {
  double ofLongRows;    ///< the limit for long rows, with heads of 128 elements
  double ofShortHeads;  ///< of that, the limit for short heads; linear in the head's length up to 128
  double halfwayTokens; ///< a row of this many tokens reaches half of its limit
  double of(uint64_t headDim, uint64_t tokens) const;
};

/// What one rank reaches, not what its data sheet says.
struct MachineRates {
  const char *name;
  double productFlops;       ///< products in f32, per second
  double tf32ProductFlops;   ///< products in f32 whose factors are rounded to TF32
  double narrowProductFlops; ///< products in bf16 and f16; of a GPU: of tiles that fill it, without their first loads
                             ///< and last stores
  double fp8ProductFlops;    ///< products of fp8 codes
  double groupedShare;       ///< of these rates, what products of groups of rows reach
  AttentionShare attention, attentionGradient; ///< by the library, whose gradient repeats its bits
  AttentionShare scoresGradient;   ///< of a GPU: the same with the cotangents of all scores in memory; 0: no such way
  AttentionShare anyOrderGradient; ///< of a GPU: where its bits need not repeat
  AttentionShare ownAttention, ownAttentionGradient; ///< by ztc's own kernels
  double kernelFlops;                                ///< generated kernels
  double memoryBytes;                                ///< read and written per second, by a copy
  double kernelShare;                                ///< of these, what generated kernels reach
  double wireBytes;                                  ///< sent per second in a collective
  double launchSeconds;                              ///< of any step
  double hostLinkBytes;     ///< moved per second between the device and the host's memory, one way at a time
  double diskLinkBytes;     ///< the same of a disk: reads and writes of one NVMe drive in turn
  double hostMemoryBytes;   ///< read and written per second by the host's cores of a rank, in their memory
  unsigned multiprocessors; ///< of a GPU, each of which computes a tile of a product at a time; 0: a host
  double cacheBytes;        ///< of a GPU: its L2 cache
};

/// A host with AVX2 and `threads` threads per rank; a GPU of the Hopper class (H100 SXM) on NVLink.
MachineRates hostRates(unsigned threads);
MachineRates gpuRates();
/// The rates of what a plan is laid out for: of the GPU in use (GpuModels.h) and of links that were measured.
MachineRates ratesOf(const PlanShape &shape);

/// What kind of work the flops are.
enum class Work { Product, NarrowProduct, Fp8Product, Attention, NarrowAttention, Kernel };

/// The longer of computing and moving, whatever the shapes are.
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
