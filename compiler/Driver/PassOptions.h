// `--pass-option=PASS.OPTION=VALUE`: options of single passes in the pipeline of `ztc compile`.
#pragma once
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/LLVM.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// One option for each pass of a name, built-in or from a plugin.
struct PassOption {
  std::string pass, option; ///< "ztc-place-slots", "staging-bytes=65536"
  bool used = false;        ///< a pipeline had such a pass
};

/// Reads "PASS.OPTION=VALUE". Fails with a message to stderr on another form and on a pass that is not registered.
llvm::FailureOr<std::vector<PassOption>> parsePassOptions(llvm::ArrayRef<std::string> texts);

/// Gives each pass of `pm` its options, after those it was made with. Fails with a message to stderr on an option that
/// the pass does not have, and on a value that is not one.
llvm::LogicalResult setPassOptions(mlir::OpPassManager &pm, llvm::MutableArrayRef<PassOption> options);

} // namespace ztc::driver
