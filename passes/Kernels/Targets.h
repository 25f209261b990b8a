// The targets of a compilation.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ztc {

/// The targets that `names`, an option of a pass, mean, in order: `host` is both x86-64 levels, nothing is `host`. An
/// unknown one is an error at `module`.
llvm::FailureOr<llvm::SmallVector<llvm::StringRef>> expandTargets(mlir::ModuleOp module,
                                                                  mlir::Pass::ListOption<std::string> &names);

} // namespace ztc
