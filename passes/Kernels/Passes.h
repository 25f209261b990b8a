// Which kernels run a group (part of phase `assign`), and their machine code (phase `codegen`).
#pragma once
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Dialect/Kernel/KernelLevel.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Kernels/Passes.h.inc"

/// Options of phase `codegen`.
struct CodegenOptions {
  std::vector<std::string> targets{
      "host"}; ///< host, x86-64-v3, x86-64-v4, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a, simt
  AfterKernels after = {};
  std::string cache = {}; ///< folder of machine code that earlier compilations made; empty: none
};

/// Adds the passes of phase `codegen`, without its verifier.
void populateCodegenPipeline(mlir::OpPassManager &pm, const CodegenOptions &options = {});

} // namespace ztc
