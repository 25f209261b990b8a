// From the plan dialect to the plan file's message.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Format/plan.pb.h"
#include <map>
#include <optional>
#include <string>

namespace ztc {

/// What a plan says about its own making.
struct PlanOptions {
  std::string ztcVersion;
  std::string precision = "fp32";
  unsigned zero = 0;
  uint64_t budgetBytes = 0;
  std::optional<uint64_t> reserveBytes;       ///< nothing: estimated by who runs the plan
  bool tf32 = false;                          ///< see plan.proto
  std::string hfConfig;                       ///< config.json's text, where one was found
  std::string adapterConfig;                  ///< adapter_config.json's text, where an adapter is trained
  std::map<std::string, std::string> options; ///< as compiled
  bool withKernels = true; ///< false: for memory reports; kernels and images may be missing, nothing is validated
  bool withContents =
      true; ///< false: for sizes and seconds alone; constants have no bytes, pieces of weights no digest
};

/// Writes the records of a module of `plan` ops (phase `plan`), one to one, and validates the result.
/// Fails with a diagnostic at the op that cannot be written.
llvm::FailureOr<plan::Plan> buildPlan(mlir::ModuleOp module, const PlanOptions &options);

} // namespace ztc
