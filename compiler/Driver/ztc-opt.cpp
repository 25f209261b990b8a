// ztc-opt: runs single passes on IR text, as mlir-opt does, with ztc's dialects and passes. `--ztc-same=A.mlir,B.mlir`
// holds what two files compute against each other (with --load-pass-plugin where they have a plugin's ops).
#include "compiler/Driver/PhasePipelines.h"
#include "compiler/Driver/Plugin.h"
#include "compiler/Driver/RegisterAll.h"
#include "compiler/Driver/VerifyPasses.h"
#include "compiler/Support/EndBySignal.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

/// The files that an option of MLIR's names, in either of its forms.
static std::vector<std::string> filesOf(int argc, char **argv, llvm::StringRef option) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef word(argv[i]);
    if (!word.consume_front("-") || (word.consume_front("-"), !word.consume_front(option)))
      continue;
    if (word.consume_front("="))
      files.push_back(word.str());
    else if (word.empty())
      files.push_back(i + 1 < argc ? argv[i + 1] : "");
  }
  return files;
}

/// MLIR opens plugins while it reads the command line: those of another build are refused before that.
static bool pluginsFit(int argc, char **argv) {
  for (const char *kind : {"pass", "dialect"})
    for (const std::string &file : filesOf(argc, argv, std::string("load-") + kind + "-plugin"))
      if (llvm::Error error = ztc::checkPlugin(file)) {
        llvm::errs() << "ztc-opt: cannot load the " << kind << " plugin '" << file
                     << "': " << llvm::toString(std::move(error)) << "\n";
        return false;
      }
  return true;
}

int main(int argc, char **argv) {
  if (!pluginsFit(argc, argv))
    return 1;
  ztc::cleanUpBySignal();
  ztc::driver::registerAllPasses();
  ztc::driver::registerPhasePipelines();
  mlir::DialectRegistry registry;
  ztc::driver::registerAllDialects(registry);
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef files(argv[i]);
    if (!files.consume_front("--ztc-same="))
      continue;
    const auto [one, other] = files.split(',');
    ztc::PhaseHooks unused;
    for (const std::string &plugin : filesOf(argc, argv, "load-pass-plugin"))
      if (failed(ztc::loadPlugin(plugin, unused, registry)))
        return 1;
    return ztc::driver::compareSteps(registry, one.str(), other.str());
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "ztc's pass driver\n", registry));
}
