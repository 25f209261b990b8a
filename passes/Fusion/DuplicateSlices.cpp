#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/Passes.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-duplicate-slices"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DUPLICATESLICES
#include "passes/Fusion/Passes.h.inc"

namespace {

/// What hands all of its first operand on, and is not a slice.
bool isWhole(Operation *op) {
  return isa<graph::ReshapeOp, graph::BarrierOp>(op);
}

/// Uses of `value`, as it is, reshaped or through a barrier, by other ops than these.
void collectUses(Value value, SmallVectorImpl<OpOperand *> &uses) {
  for (OpOperand &use : value.getUses()) {
    if (!isWhole(use.getOwner()))
      uses.push_back(&use);
    else if (use.getOperandNumber() == 0) // a barrier that only waits for it reads nothing
      collectUses(use.getOwner()->getResult(0), uses);
  }
}

class SliceDuplicator {
public:
  explicit SliceDuplicator(func::FuncOp function) : block(function.getBody().front()), lossOp(lossOpOf(function)) {}

  void run() {
    llvm::SetVector<Value> sources;
    for (auto slice : block.getOps<graph::SliceOp>())
      if (!aliasOf(slice))
        sources.insert(slice.getX());
    for (Value source : sources)
      duplicate(source);
    eraseDeadOps(block);
  }

private:
  void duplicate(Value source) {
    SmallVector<graph::SliceOp> slices;
    for (Operation *user : source.getUsers()) {
      auto slice = dyn_cast<graph::SliceOp>(user);
      if (!slice || aliasOf(slice))
        return; // it is there as a whole in any case, for who knows how long
      slices.push_back(slice);
    }
    llvm::sort(slices, [](graph::SliceOp a, graph::SliceOp b) { return a->isBeforeInBlock(b); });
    // From the forward part to backward nearly all of it is kept, or nothing.
    int64_t kept = 0;
    for (graph::SliceOp slice : slices)
      kept += isKept(slice) ? tensorBytes(slice.getType()) : 0;
    if (kept != 0 && kept < tensorBytes(source.getType()) / 8 * 7)
      return;
    for (graph::SliceOp slice : slices) {
      SmallVector<OpOperand *> uses;
      collectUses(slice, uses);
      for (OpOperand *use : uses)
        if (uses.size() > 1 && isComputed(use->getOwner())) // a group reads a slice where it lies
          use->set(cloneChain(use->getOwner(), use->get()));
    }
  }

  /// `value`, a slice with reshapes and barriers after it, written again before `reader`; the barriers in front of the
  /// slice, where what is stored is: one for all slices of it that `reader` reads.
  Value cloneChain(Operation *reader, Value value) {
    OpBuilder builder(reader);
    SmallVector<Operation *> chain{value.getDefiningOp()};
    while (isWhole(chain.back()))
      chain.push_back(chain.back()->getOperand(0).getDefiningOp());
    Value source = chain.back()->getOperand(0);
    for (Operation *op : llvm::reverse(chain))
      if (auto barrier = dyn_cast<graph::BarrierOp>(op)) {
        Value &known = barriers[{reader, source, barrier.getAfter()}];
        if (!known)
          known = graph::BarrierOp::create(builder, barrier.getLoc(), source, barrier.getAfter());
        source = known;
      }
    for (Operation *op : llvm::reverse(chain)) {
      if (isa<graph::BarrierOp>(op))
        continue;
      Operation *clone = builder.clone(*op);
      clone->setOperand(0, source);
      source = clone->getResult(0);
    }
    return source;
  }

  /// Whether `slice` is computed in the forward part, and a group of the backward part reads it.
  bool isKept(graph::SliceOp slice) {
    SmallVector<OpOperand *> uses;
    collectUses(slice, uses);
    return lossOp && slice->isBeforeInBlock(lossOp) && llvm::any_of(uses, [&](OpOperand *use) {
             return lossOp->isBeforeInBlock(use->getOwner()) && isComputed(use->getOwner());
           });
  }

  Block &block;
  Operation *lossOp;
  llvm::DenseMap<std::tuple<Operation *, Value, Value>, Value>
      barriers; ///< by reader, what it hands on, and after what
};

struct DuplicateSlices : impl::DuplicateSlicesBase<DuplicateSlices> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      SliceDuplicator(function).run();
  }
};
} // namespace
} // namespace ztc
