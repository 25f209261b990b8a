// Phase `precision`: which type every value is stored in.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Support/Formats.h"
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
  StoragePrecision precision = StoragePrecision::Fp32;
  StateFormat optimizerState = StateFormat::Fp32;
  std::vector<std::string> keep = {};                   ///< regular expressions: layers that stay f32
  MasterFormat masters = MasterFormat::Fp32;            ///< of bf16 parameters
  CotangentFormat fp8Gradients = CotangentFormat::E5m2; ///< of fp8
  std::vector<std::string> keepBf16 = {};               ///< of fp8: layers whose products stay bf16
  Fp8Scaling fp8Scaling = Fp8Scaling::Dynamic;          ///< of fp8
};

/// Adds the passes of phase `precision`, without its verifier.
void populatePrecisionPipeline(mlir::OpPassManager &pm, const PrecisionOptions &options = {});

} // namespace ztc
