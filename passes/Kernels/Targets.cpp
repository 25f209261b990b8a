#include "passes/Kernels/Targets.h"
#include "compiler/Codegen/Codegen.h"

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
    const StringLiteral *device = llvm::find(kDeviceTargets, target);
    if (known == std::end(kHostTargets) && device == std::end(kDeviceTargets))
      return module.emitError("there is no code generation for target '")
                 << target << "'; known are host, x86-64-v3, x86-64-v4, sm_80, sm_90a, sm_100a, simt",
             failure();
    expanded.push_back(known == std::end(kHostTargets) ? *device : *known);
  }
  return expanded;
}

} // namespace ztc
