#include "compiler/Driver/RegisterAll.h"
#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Adapters/Passes.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Offload/Passes.h"
#include "passes/Patterns/Passes.h"
#include "passes/Placement/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Quantization/Passes.h"
#include "passes/Recompute/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Sharding/Passes.h"
#include "passes/Verify/Passes.h"

using namespace mlir;

void ztc::driver::registerAllDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, func::FuncDialect, graph::GraphDialect, dist::DistDialect, plan_ir::PlanDialect>();
  codegen::registerKernelDialects(registry);
  registerStepSources(registry);
}

void ztc::driver::registerAllPasses() {
  registerTransformsPasses();
  registerPatternsPasses();
  registerAdaptersPasses();
  registerAutodiffPasses();
  registerPrecisionPasses();
  registerShardingPasses();
  registerQuantizationPasses();
  registerRecomputePasses();
  registerFusionPasses();
  registerSchedulePasses();
  registerPlacementPasses();
  registerKernelsPasses();
  registerConversionPasses();
  registerOffloadPasses();
  registerVerifyPasses();
}
