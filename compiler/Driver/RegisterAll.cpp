#include "compiler/Driver/RegisterAll.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Verify/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Verify/Passes.h"

using namespace mlir;

void ztc::registerAllDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, graph::GraphDialect>();
}

void ztc::registerAllPasses() {
  registerTransformsPasses();
  registerAutodiffPasses();
  registerVerifyPasses();
  registerAutodiffPasses();
  registerVerifyPasses();
}
