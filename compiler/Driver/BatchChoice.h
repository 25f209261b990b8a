// --batch=auto and --global-batch: the micro-batch that is worth its memory, and how many of them make a step.
#pragma once
#include "compiler/Driver/Options.h"
#include "mlir/Support/LLVM.h"

namespace ztc::driver {

/// Where --batch=auto is given, sets `batch` to the smallest power of two within 2 % of the best rate that the cost
/// model gives those that fit and share --global-batch among --gpus ranks; from --global-batch sets `accumulate`. Says
/// what was chosen on stderr. Fails after a message, with its exit status in `status`, where they cannot be shared or
/// none fits.
llvm::LogicalResult chooseBatch(CompileOptions &options, int &status);

} // namespace ztc::driver
