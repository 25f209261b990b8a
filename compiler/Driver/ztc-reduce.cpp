// ztc-reduce: makes an IR file smaller while a test script still finds what it looks for (as mlir-reduce).
#include "compiler/Driver/RegisterAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  ztc::driver::registerAllPasses();
  mlir::DialectRegistry registry;
  ztc::driver::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context)) ? 1 : 0;
}
