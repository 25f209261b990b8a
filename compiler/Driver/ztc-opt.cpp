// ztc-opt: runs single passes on IR text, as mlir-opt does, with ztc's dialects and passes. `--ztc-same=A.mlir,B.mlir`
// holds what two files compute against each other.
#include "compiler/Driver/PhasePipelines.h"
#include "compiler/Driver/Plugin.h"
#include "compiler/Driver/RegisterAll.h"
#include "compiler/Driver/VerifyPasses.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/raw_ostream.h"

/// MLIR opens plugins while it reads the command line: those of another build are refused before that.
static bool pluginsFit(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef word(argv[i]);
    if (!word.consume_front("--load-pass-plugin") && !word.consume_front("-load-pass-plugin"))
      continue;
    llvm::StringRef file = word.consume_front("=") ? word : i + 1 < argc ? llvm::StringRef(argv[i + 1]) : "";
    if (llvm::Error error = ztc::checkPlugin(file)) {
      llvm::errs() << "ztc-opt: cannot load the pass plugin '" << file << "': " << llvm::toString(std::move(error))
                   << "\n";
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  if (!pluginsFit(argc, argv))
    return 1;
  ztc::registerAllPasses();
  ztc::registerPhasePipelines();
  mlir::DialectRegistry registry;
  ztc::registerAllDialects(registry);
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef files(argv[i]);
    if (!files.consume_front("--ztc-same="))
      continue;
    const auto [one, other] = files.split(',');
    return ztc::compareSteps(registry, one.str(), other.str());
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "ztc's pass driver\n", registry));
}
