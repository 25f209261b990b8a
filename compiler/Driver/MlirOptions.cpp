#include "compiler/Driver/MlirOptions.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;

namespace ztc::driver {

/// Whether MLIR's options are registered, which only a program that was given some does.
static bool registered = false;

LogicalResult MlirOptions::parse(ArrayRef<std::string> words) {
  if (registered || words.empty())
    return success();
  registered = true;
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  registerAsmPrinterCLOptions();
  std::vector<const char *> arguments{"ztc"};
  for (const std::string &word : words)
    arguments.push_back(word.c_str());
  return success(llvm::cl::ParseCommandLineOptions(arguments.size(), arguments.data(), "", &llvm::errs()));
}

MlirOptions::MlirOptions() {
  if (registered)
    applyDefaultTimingManagerCLOptions(timing);
  root = timing.getRootScope();
}

LogicalResult MlirOptions::apply(PassManager &pm, TimingScope &scope) const {
  if (!registered)
    return success();
  pm.enableTiming(scope);
  return applyPassManagerCLOptions(pm);
}

} // namespace ztc::driver
