#include "compiler/Analysis/StepKinds.h"
#include "compiler/Support/Moves.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Fusion/Group.h"
#include "passes/Fusion/Passes.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-group-macro-ops"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GROUPMACROOPS
#include "passes/Fusion/Passes.h.inc"

namespace {

/// Writes out the macro ops inside `fusion`.
LogicalResult decomposeInside(graph::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto macro = dyn_cast<DecomposableOpInterface>(op);
    if (!macro)
      continue;
    OpBuilder builder(&op);
    FailureOr<SmallVector<Value>> values = macro.decompose(builder);
    if (failed(values))
      return failure();
    op.replaceAllUsesWith(*values);
    op.erase();
  }
  // A decomposition may write results nobody asked for, and constants twice.
  eraseDeadOps(body);
  return success();
}

using OpSet = llvm::SetVector<Operation *>;

bool isMacro(Operation *op) {
  return isa_and_nonnull<DecomposableOpInterface>(op) && !isLibraryCall(op);
}

/// Adds the slice or widening, and reshapes around it, that `operand` is and that nothing else reads.
void addSliceOrWidening(Value operand, OpSet &group) {
  SmallVector<Operation *> chain;
  for (Value value = operand; value.hasOneUse(); value = chain.back()->getOperand(0)) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<graph::ReshapeOp, graph::SliceOp>(op) && !isWidening(op))
      break;
    chain.push_back(op);
  }
  while (!chain.empty() && aliasOf(chain.back()))
    chain.pop_back();
  group.insert(chain.begin(), chain.end());
}

void addMacro(Operation *macro, OpSet &group) {
  for (Value operand : macro->getOperands())
    addSliceOrWidening(operand, group);
  group.insert(macro);
}

/// Adds the sum that a result of `macro` is a term of and nothing else, as where a norm's cotangent joins the residual
/// stream's: the term is not stored. The sum moves up to the macro op, after its other term.
void addSum(Operation *macro, OpSet &group) {
  for (Value result : macro->getResults()) {
    auto sum = result.hasOneUse() ? dyn_cast<graph::AddOp>(*result.user_begin()) : graph::AddOp();
    if (!sum || sum->getBlock() != macro->getBlock())
      continue;
    Operation *other = (sum.getA() == result ? sum.getB() : sum.getA()).getDefiningOp();
    if (other && !other->isBeforeInBlock(macro))
      continue;
    moveAfter(sum, macro);
    group.insert(sum);
    return;
  }
}

/// The only op that reads `value`, through reshapes; null where there are several.
Operation *soleReader(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<graph::ReshapeOp>(user))
      return user;
    value = user->getResult(0);
  }
  return nullptr;
}

/// Adds the macro ops whose results are only parts of `joined`, a matrix, with the reshapes between them and it.
bool addParts(graph::ConcatOp joined, OpSet &group) {
  auto type = cast<RankedTensorType>(joined.getType());
  if (type.getRank() != 2 || joined.getAxis() != 1)
    return false;
  bool found = false;
  for (Value part : joined.getInputs()) {
    SmallVector<Operation *> reshapes;
    for (; auto reshape = part.getDefiningOp<graph::ReshapeOp>(); part = reshape.getX())
      reshapes.push_back(reshape);
    Operation *macro = part.getDefiningOp();
    if (!isMacro(macro) ||
        llvm::any_of(macro->getResults(), [&](Value result) { return soleReader(result) != joined; }))
      continue;
    addMacro(macro, group);
    group.insert(reshapes.begin(), reshapes.end());
    found = true;
  }
  group.insert(joined);
  return found;
}

/// What a kernel of a macro op is called: an update as its optimizer is.
std::string kernelName(Operation *op) {
  if (auto step = dyn_cast<graph::OptimizerStepOp>(op))
    return step.getOptimizer().str();
  return op->getName().stripDialect().str();
}

/// One group of these ops, named after the macro ops in it.
LogicalResult groupMacros(const OpSet &group) {
  SmallVector<Operation *> ops(group.begin(), group.end());
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  std::string name;
  for (Operation *op : ops)
    if (isMacro(op) || isa<graph::AddOp>(op))
      name += (name.empty() ? "" : "_") + kernelName(op);
  return decomposeInside(groupOps(ops, name, graph::FusionKind::Macro));
}

struct GroupMacroOps : impl::GroupMacroOpsBase<GroupMacroOps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      for (auto joined : llvm::make_early_inc_range(block.getOps<graph::ConcatOp>())) {
        OpSet group;
        if (addParts(joined, group) && failed(groupMacros(group)))
          return signalPassFailure();
      }
      SmallVector<Operation *> macros;
      for (Operation &op : block)
        if (isMacro(&op))
          macros.push_back(&op);
      for (Operation *op : macros) {
        OpSet group;
        addMacro(op, group);
        addSum(op, group);
        if (failed(groupMacros(group)))
          return signalPassFailure();
      }
    }
  }
};
} // namespace
} // namespace ztc
