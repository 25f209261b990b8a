#include "passes/Kernels/Targets.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/DeviceTargets.h"

using namespace mlir;

namespace ztc {

FailureOr<SmallVector<StringRef>> expandTargets(ModuleOp module, Pass::ListOption<std::string> &names) {
  SmallVector<StringRef> expanded;
  SmallVector<std::string> asked(names.begin(), names.end());
  if (asked.empty())
    asked.push_back("host");
  for (const std::string &target : asked) {
    if (target == "host") {
      expanded.append(std::begin(kHostTargets), std::end(kHostTargets));
      continue;
    }
    const StringLiteral *known = llvm::find(kHostTargets, target);
    if (known == std::end(kHostTargets) && !isDeviceTarget(target))
      return module.emitError("there is no code generation for target '")
                 << target << "'; known are host, x86-64-v3, x86-64-v4, " << deviceTargetNames(),
             failure();
    if (known != std::end(kHostTargets))
      expanded.push_back(*known);
    else
      expanded.push_back(target == kSimtTarget ? kSimtTarget : findDeviceTarget(target)->name);
  }
  return expanded;
}

} // namespace ztc
