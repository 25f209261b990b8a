#include "passes/Recompute/Policies.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace mlir;

namespace ztc {

static std::map<std::string, RecomputePolicy> &policies() {
  static std::map<std::string, RecomputePolicy> all{
      {"cheap", [](func::FuncOp,
                   const RecomputeCandidates &candidates) { return FailureOr<RecomputeChoice>(candidates.cheap()); }},
      {"layer", [](func::FuncOp, const RecomputeCandidates &candidates) {
         return FailureOr<RecomputeChoice>(candidates.wholeLayers());
       }}};
  return all;
}

LogicalResult registerRecomputePolicy(std::string name, RecomputePolicy policy) {
  const bool isReserved = name.empty() || name == "none" || name == "auto" || name == "choice";
  if (isReserved || !policy || !policies().emplace(name, std::move(policy)).second) {
    llvm::errs() << "ztc: cannot register the recompute policy '" << name
                 << "': " << (isReserved ? "the name means something else" : "there is one of that name") << "\n";
    return failure();
  }
  return success();
}

const RecomputePolicy *findRecomputePolicy(StringRef name) {
  auto found = policies().find(name.str());
  return found == policies().end() ? nullptr : &found->second;
}

SmallVector<std::string> recomputePolicyNames() {
  SmallVector<std::string> names;
  for (const auto &[name, policy] : policies())
    names.push_back(name);
  return names;
}

} // namespace ztc
