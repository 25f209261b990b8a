// Phase `precision`: which type every value is stored in.
#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Precision/Passes.h.inc"

/// Options of phase `precision`.
struct PrecisionOptions {
  std::string precision = "fp32";      ///< fp32, bf16 or fp16
  std::string optimizerState = "fp32"; ///< fp32, bf16 or int8
  std::vector<std::string> keep = {};  ///< regular expressions: layers that stay f32
  std::string masters = "fp32";        ///< of bf16 parameters: fp32 or none
};

/// Adds the passes of phase `precision`, without its verifier.
void populatePrecisionPipeline(mlir::OpPassManager &pm, const PrecisionOptions &options = {});

} // namespace ztc
