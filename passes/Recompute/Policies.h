// Policies of recomputation by name: which groups of a block's ops are computed again for the backward part.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Recompute/Candidates.h"
#include <functional>
#include <string>

namespace ztc {

/// Chooses for one `@microstep`. What backward or another clone does not read is not computed again, whatever is
/// chosen. Fails after a diagnostic.
using RecomputePolicy =
    std::function<mlir::FailureOr<RecomputeChoice>(mlir::func::FuncOp microstep, const RecomputeCandidates &)>;

/// Adds the policy that `--recompute=NAME` asks for. Fails, with a message to stderr, where the name is taken: none,
/// auto, choice, cheap and layer are.
llvm::LogicalResult registerRecomputePolicy(std::string name, RecomputePolicy policy);

/// The policy of this name, "cheap" and "layer" among them; null where none is registered.
const RecomputePolicy *findRecomputePolicy(llvm::StringRef name);

/// All names, in order.
llvm::SmallVector<std::string> recomputePolicyNames();

} // namespace ztc
