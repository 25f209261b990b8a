// ztc-opt: runs single passes on IR text, as mlir-opt does, with ztc's dialects and passes.
#include "compiler/Driver/RegisterAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  ztc::registerAllPasses();
  mlir::DialectRegistry registry;
  ztc::registerAllDialects(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "ztc's pass driver\n", registry));
}
