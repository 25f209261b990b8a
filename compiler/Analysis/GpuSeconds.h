// How long a GPU takes for a step, by the shapes of its products and the lengths of its attention: no measurement of
// this plan. What the rates rest on: tests/gpu/README.md.
#pragma once
#include "compiler/Analysis/CostModel.h"

namespace ztc {

/// A matrix product, or a batch of them, C of m x n over k.
struct ProductShape {
  uint64_t m = 0, n = 0, k = 0, batch = 1;
  double factorBytes = 2; ///< of an element of A and B
  double resultBytes = 2; ///< read and written of an element of C and of what is added to it
};

/// Tiles of the fastest of some shapes, in waves of one a multiprocessor: the last is as long as a whole one. A tile's
/// first loads and its stores are not hidden. `tileFlops`: of all multiprocessors. Without the launch.
double productSeconds(const MachineRates &rates, const ProductShape &shape, double tileFlops);

/// What one execution of a step takes, and how many kernels it launches.
struct GpuSeconds {
  double work = 0; ///< without the launches
  unsigned launches = 1;
};

/// What of a run decides how long its steps take.
struct GpuRun {
  uint64_t microSteps = 1;   ///< of an optimizer step: the first writes what the others add to
  bool deterministic = true; ///< as runs are unless they are told otherwise
};

/// Of what a GPU computes in its own memory, on the average of the micro-steps; `bytes` and flops of the step as
/// elsewhere. Collectives, moves between spaces and what the host computes are not its matter.
GpuSeconds gpuStepSeconds(const plan::Plan &plan, const plan::Step &step, double bytes, const MachineRates &rates,
                          const GpuRun &run = {});

} // namespace ztc
