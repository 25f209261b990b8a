#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Verify/Checks.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-import"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYIMPORT
#include "passes/Verify/Passes.h.inc"

namespace {

/// The positive integer attribute `name` of the module, or 0.
int64_t moduleNumber(ModuleOp module, StringRef name) {
  auto attribute = module->getAttrOfType<IntegerAttr>(name);
  return attribute ? std::max<int64_t>(attribute.getInt(), 0) : 0;
}

/// (I4)
LogicalResult checkOneRealType(func::FuncOp forward) {
  Type real;
  auto check = [&](Value value) -> LogicalResult {
    Type type = getElementTypeOrSelf(value.getType());
    if (!isa<FloatType>(type) || type == real)
      return success();
    if (!real) {
      real = type;
      return success();
    }
    return emitError(value.getLoc(), "I4: a value of type ") << value.getType() << " stands beside values of " << real;
  };
  for (BlockArgument argument : forward.getArguments())
    if (failed(check(argument)))
      return failure();
  WalkResult result = forward.walk([&](Operation *op) {
    if (auto cast = dyn_cast<graph::CastOp>(op))
      if (isa<FloatType>(getElementTypeOrSelf(cast.getX().getType())) &&
          isa<FloatType>(getElementTypeOrSelf(cast.getY().getType()))) {
        cast.emitOpError("I4: leads from float to float");
        return WalkResult::interrupt();
      }
    for (Value value : op->getResults())
      if (failed(check(value)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

struct VerifyImport : impl::VerifyImportBase<VerifyImport> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    if (failed(verify(getOperation())))
      signalPassFailure();
  }

  LogicalResult verify(ModuleOp module) {
    if (failed(checkFunctions(module, "I1", {graph::Entry::Forward})))
      return failure();
    auto forward = graph::findEntry(module, graph::Entry::Forward);
    if (failed(checkOnlyGraphOps(forward, "I1")))
      return failure();
    int64_t batch = moduleNumber(module, graph::kBatch), sequence = moduleNumber(module, graph::kSequence);
    int64_t vocabulary = moduleNumber(module, graph::kVocabulary);
    if (!batch || !sequence || !vocabulary)
      return module.emitError() << "I2: graph.batch, graph.seq and graph.vocabulary should be positive, have " << batch
                                << ", " << sequence << ", " << vocabulary;
    if (failed(checkRoles(forward, "I3", {"tokens", "parameter..."})))
      return failure();
    auto tokensType = RankedTensorType::get({batch, sequence}, IntegerType::get(&getContext(), 32));
    if (forward.getArgumentTypes()[0] != tokensType)
      return forward.emitOpError("I2: tokens have type ")
             << forward.getArgumentTypes()[0] << ", expected " << tokensType;
    for (auto [index, type] : llvm::enumerate(forward.getArgumentTypes().drop_front())) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !tensor.hasStaticShape() || !isa<FloatType>(tensor.getElementType()))
        return forward.emitOpError("I3: parameter '")
               << graph::argString(forward, index + 1, graph::kName) << "' has type " << type;
    }
    if (failed(checkOneRealType(forward)))
      return failure();
    auto logits =
        forward.getNumResults() == 1 ? dyn_cast<RankedTensorType>(forward.getResultTypes()[0]) : RankedTensorType();
    if (!logits)
      return forward.emitOpError("I5: should return logits alone");
    return checkResults(forward, "I5", {{"logits", "", logits.clone(ArrayRef<int64_t>{batch, sequence, vocabulary})}});
  }
};
} // namespace
} // namespace ztc
