#include "compiler/Driver/RegisteredNames.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "passes/Recompute/Policies.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Print.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ztc::driver {

static bool isRegistered(StringRef option, const std::string &name, ArrayRef<std::string> names) {
  if (llvm::is_contained(names, name))
    return true;
  const std::string meant = nearestName(name, {names.begin(), names.end()});
  llvm::errs() << "ztc: --" << option << "=" << printable(name) << ": there is none of that name"
               << (meant.empty() ? "; there are " : ", did you mean " + meant + "? There are ")
               << llvm::join(names, ", ") << ", and what a plugin registers (--load-pass-plugin)\n";
  return false;
}

bool areRegistered(const CompileOptions &options) {
  SmallVector<std::string> policies{"auto", "none"};
  llvm::append_range(policies, recomputePolicyNames());
  return isRegistered("optimizer", options.optimizer, graph::optimizerNames()) &&
         isRegistered("recompute", options.recompute, policies);
}

bool orthogonalizes(const CompileOptions &options) {
  const graph::OptimizerRule *rule = graph::findOptimizer(options.optimizer);
  return rule && rule->orthogonalizes;
}

} // namespace ztc::driver
