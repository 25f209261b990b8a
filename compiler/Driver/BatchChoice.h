// --batch=auto and --global-batch: the micro-batch that is worth its memory, and how many of them make a step.
#pragma once
#include "compiler/Driver/Options.h"
#include "mlir/Support/LLVM.h"

#include <vector>

namespace ztc::driver {

/// The micro-batches that are tried where a rank has so many rows a step, the smallest first: for 1, 2, 4, ... 64 the
/// smallest divisor of `rows` from it on, below its double.
std::vector<uint64_t> microBatches(uint64_t rows);

/// Where --batch=auto is given, sets `batch` to the smallest of these within 2 % of the best rate that the cost
/// model gives those that fit and share --global-batch among --gpus ranks; from --global-batch sets `accumulate`. Says
/// what was chosen on stderr. Fails after a message, with its exit status in `status`, where they cannot be shared or
/// none fits.
llvm::LogicalResult chooseBatch(CompileOptions &options, int &status);

} // namespace ztc::driver
