// ztc-lsp-server: editors ask it about IR files of ztc's dialects (Language Server Protocol, as mlir-lsp-server).
#include "compiler/Driver/RegisterAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ztc::driver::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry)) ? 1 : 0;
}
