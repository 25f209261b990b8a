#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-shard"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYSHARD
#include "passes/Verify/Passes.h.inc"

namespace {

/// (S3)
LogicalResult checkNames(ModuleOp module) {
  llvm::StringMap<dist::BucketOp> homes;
  for (auto bucket : module.getOps<dist::BucketOp>())
    for (Attribute entry : bucket.getParameters()) {
      StringAttr name = dist::readBucketParameter(entry).name;
      auto [home, inserted] = homes.try_emplace(name.getValue(), bucket);
      if (!inserted) {
        InFlightDiagnostic error = bucket.emitOpError("S3: ") << name << " stands in two buckets";
        error.attachNote(home->second.getLoc()) << "the other one is " << home->second.getSymNameAttr();
        return error;
      }
    }
  return success();
}

/// (S1) and (S2)
LogicalResult checkArguments(ModuleOp module, func::FuncOp function) {
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    StringRef role = graph::roleOf(function, index);
    if (role == "parameter" || role == "gradient" || role == "exp_avg" || role == "exp_avg_sq")
      return function.emitOpError("S1: argument ") << index << " is a single " << role;
    if (!role.ends_with("_bucket"))
      continue;
    auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
    auto bucket = symbol ? module.lookupSymbol<dist::BucketOp>(symbol.getAttr()) : dist::BucketOp();
    if (!bucket)
      return function.emitOpError("S2: argument ") << index << " (" << role << ") names no dist.bucket";
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
    if (type.getRank() != 1 || type.getDimSize(0) != int64_t(bucket.getElements()))
      return function.emitOpError("S2: argument ")
             << index << " has type " << type << ", its bucket " << bucket.getElements() << " elements";
  }
  return success();
}

/// (S4)
LogicalResult checkBucketResults(ModuleOp module, func::FuncOp function, ArrayRef<StringRef> kinds) {
  llvm::StringMap<unsigned> count;
  Operation *terminator = function.getBody().front().getTerminator();
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    auto kind = function.getResultAttrOfType<StringAttr>(index, graph::kResult);
    auto bucket = function.getResultAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
    if (!kind || !llvm::is_contained(kinds, kind.getValue()))
      continue;
    if (!bucket)
      return function.emitOpError("S1: result ") << index << " is a single " << kind.getValue();
    ++count[(kind.getValue() + " " + bucket.getValue()).str()];
    if (kind.getValue() == "gradient" && !terminator->getOperand(index).getDefiningOp<dist::PackOp>())
      return function.emitOpError("S4: result ") << index << ", the gradients of " << bucket << ", is no dist.pack";
  }
  for (auto bucket : module.getOps<dist::BucketOp>())
    for (StringRef kind : kinds)
      if (unsigned found = count.lookup((kind + " " + bucket.getSymName()).str());
          found != unsigned(bucket.getTrainable()))
        return function.emitOpError("S4: returns ")
               << found << " results of kind " << kind << " for bucket " << bucket.getSymNameAttr();
  return success();
}

struct VerifyShard : impl::VerifyShardBase<VerifyShard> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkNames(module)))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>()) {
      SmallVector<StringRef> kinds;
      if (function.getName() == "microstep")
        kinds = {"gradient"};
      if (function.getName() == "update")
        kinds = {"parameter", "exp_avg", "exp_avg_sq"};
      if (failed(checkArguments(module, function)) ||
          (!kinds.empty() && failed(checkBucketResults(module, function, kinds))))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace ztc
