#include "compiler/Driver/PassOptions.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ztc::driver {

FailureOr<std::vector<PassOption>> parsePassOptions(ArrayRef<std::string> texts) {
  std::vector<PassOption> options;
  for (const std::string &text : texts) {
    auto [pass, option] = StringRef(text).split('.');
    if (pass.empty() || !option.contains('=') || option.starts_with("=")) {
      llvm::errs() << "ztc: --pass-option=" << text << ": expected PASS.OPTION=VALUE, e.g. ztc-choose-stage.zero=3\n";
      return failure();
    }
    if (!PassInfo::lookup(pass)) {
      llvm::errs() << "ztc: --pass-option=" << text << " names no pass (ztc-opt --help lists them)\n";
      return failure();
    }
    options.push_back({pass.str(), option.str()});
  }
  return options;
}

LogicalResult setPassOptions(OpPassManager &pm, MutableArrayRef<PassOption> options) {
  for (Pass &pass : pm.getPasses())
    for (PassOption &option : options) {
      if (pass.getArgument() != option.pass)
        continue;
      option.used = true;
      std::string reason;
      auto report = [&](const Twine &message) {
        reason = message.str();
        return failure();
      };
      if (failed(pass.initializeOptions(option.option, report))) {
        llvm::errs() << "ztc: --pass-option=" << option.pass << "." << option.option << ": "
                     << (reason.empty() ? "the pass does not take this" : StringRef(reason).trim()) << "\n";
        return failure();
      }
    }
  return success();
}

} // namespace ztc::driver
