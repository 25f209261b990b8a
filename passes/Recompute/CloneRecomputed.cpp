#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Recompute/Passes.h"

#define DEBUG_TYPE "ztc-clone-recomputed"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_CLONERECOMPUTED
#include "passes/Recompute/Passes.h.inc"

namespace {

class Cloner {
public:
  Cloner(Block &block, Operation *lossOp)
      : block(block), lossOp(lossOp), builder(block.getParent()->getContext()),
        after(lossOp->getResult(std::min(1u, lossOp->getNumResults() - 1))) {}

  void run() {
    SmallVector<Operation *> readers;
    for (Operation *op = lossOp->getNextNode(); op; op = op->getNextNode())
      readers.push_back(op);
    for (Operation *op : readers) {
      // An alias is read where its readers stand: its own place may be any.
      if (aliasOf(op))
        continue;
      reader = op;
      if (Value gradient = gradientOf(op))
        after = gradient;
      for (OpOperand &operand : op->getOpOperands())
        if (Value value = recomputed(operand.get()))
          operand.set(value);
    }
    eraseDeadOps(block);
  }

private:
  /// The latest gradient among what `op` reads; null where it reads only values of the forward part.
  Value gradientOf(Operation *op) const {
    Value latest;
    for (Value operand : op->getOperands()) {
      Value source = resolveAlias(operand).source;
      Operation *definition = source.getDefiningOp();
      if (!definition || definition->isBeforeInBlock(lossOp) || isCollective(definition) ||
          definition->hasAttr(kRecomputation) ||
          isa<graph::ConstantOp, dist::PackOp, dist::ShardCodesOp, graph::TransposeCodesOp>(definition))
        continue;
      if (!latest || latest.getDefiningOp()->isBeforeInBlock(definition))
        latest = source;
    }
    // What gives codes and scale has read the gradient itself.
    if (Operation *encoding = latest ? latest.getDefiningOp() : nullptr; graph::isEncoding(encoding))
      latest = gradientOf(encoding);
    // A barrier only waits: it must not be why a narrow gradient is stored in f32 too.
    while (auto widening = latest ? latest.getDefiningOp<graph::CastOp>() : graph::CastOp()) {
      Value narrow = resolveAlias(widening.getX()).source;
      if (!narrow.getDefiningOp() || narrow.getDefiningOp()->isBeforeInBlock(lossOp))
        break;
      latest = narrow;
    }
    return latest;
  }

  /// The clone's value for `value`, written before the reader; null where `value` is not recomputed.
  Value recomputed(Value value) {
    if (Value known = clones.lookup(value))
      return known;
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return {};
    // What is made of a weight is never kept: the weight is there. The backward part's own codes stand where they are
    // read.
    const bool isOwn = (graph::isEncoding(definition) || isa<graph::TransposeCodesOp>(definition)) &&
                       !definition->isBeforeInBlock(lossOp);
    if (definition->hasAttr(kRecomputed) || (graph::isMadeOfWeight(definition) && !isOwn)) {
      cloneOp(definition);
    } else if (std::optional<Alias> alias = aliasOf(definition)) {
      Value source = recomputed(alias->source);
      if (!source)
        return {};
      builder.setInsertionPoint(reader);
      Operation *clone = builder.clone(*definition);
      clone->setOperand(0, source);
      clones[value] = clone->getResult(0);
    }
    return clones.lookup(value);
  }

  void cloneOp(Operation *op) {
    SmallVector<Value> operands;
    bool isHeld = false; // something that this clone reads exists only after the gradient
    for (Value operand : op->getOperands()) {
      Operation *source = resolveAlias(operand).source.getDefiningOp();
      if (Value value = recomputed(operand)) {
        operands.push_back(value);
        isHeld = true;
      } else if (!source || isa<graph::ConstantOp>(source)) {
        operands.push_back(operand);
      } else if (auto gather = dyn_cast<dist::AllGatherOp>(source)) {
        operands.push_back(onGather(operand, backwardGather(gather)));
      } else {
        operands.push_back(throughBarrier(operand));
        isHeld = true;
      }
    }
    if (!isHeld)
      operands.front() = throughBarrier(operands.front());
    builder.setInsertionPoint(reader);
    Operation *clone = builder.clone(*op);
    clone->setOperands(operands);
    clone->removeAttr(kRecomputed);
    clone->setAttr(kRecomputation, builder.getUnitAttr());
    for (auto [original, result] : llvm::zip_equal(op->getResults(), clone->getResults()))
      clones[original] = result;
  }

  Value throughBarrier(Value value) {
    Value &barrier = barriers[{value, after}];
    if (!barrier) {
      builder.setInsertionPoint(reader);
      barrier = graph::BarrierOp::create(builder, reader->getLoc(), value, after);
    }
    return barrier;
  }

  /// The gather of the same bucket that the backward part reads, not after the reader. One that serves both parts
  /// stays; where backward had none of its own, and the forward one is not kept, there is a new one.
  dist::AllGatherOp backwardGather(dist::AllGatherOp forward) {
    dist::AllGatherOp &gather = gathers[forward.getType()];
    if (gather)
      return gather;
    for (auto other : block.getOps<dist::AllGatherOp>())
      if (other.getType() == forward.getType() && lossOp->isBeforeInBlock(other))
        if (!gather || other->isBeforeInBlock(gather))
          gather = other;
    if (!gather && isReadByBackward(forward.getY(), lossOp))
      return gather = forward;
    builder.setInsertionPoint(reader);
    // Codes are made anew for each gather, in its storage.
    Operation *codes = (gather ? gather : forward).getShard().getDefiningOp<dist::ShardCodesOp>();
    if (!gather) {
      codes = codes ? builder.clone(*codes) : nullptr;
      gather = cast<dist::AllGatherOp>(builder.clone(*forward));
      if (codes)
        gather->setOperand(0, codes->getResult(0));
    } else if (!gather->isBeforeInBlock(reader)) {
      gather->moveBefore(reader);
      if (codes)
        codes->moveBefore(gather);
    }
    return gather;
  }

  /// `value`, a chain of aliases on a gather, as the same chain on `gather`.
  Value onGather(Value value, dist::AllGatherOp gather) {
    if (value.getDefiningOp() == gather || resolveAlias(value).source == gather.getY())
      return value;
    if (isa<dist::AllGatherOp>(value.getDefiningOp()))
      return gather.getY();
    if (Value known = views.lookup(value))
      return known;
    Value source = onGather(value.getDefiningOp()->getOperand(0), gather);
    builder.setInsertionPoint(reader);
    Operation *clone = builder.clone(*value.getDefiningOp());
    clone->setOperand(0, source);
    return views[value] = clone->getResult(0);
  }

  Block &block;
  Operation *lossOp;
  OpBuilder builder;
  Operation *reader = nullptr; ///< the op for which clones are written
  Value after; ///< a gradient that exists where the reader stands; of the loss, that of the last hidden states
  llvm::DenseMap<Value, Value> clones; ///< by the original's result
  llvm::DenseMap<std::pair<Value, Value>, Value> barriers;
  llvm::DenseMap<Type, dist::AllGatherOp> gathers; ///< the one that clones read, by bucket and type
  llvm::DenseMap<Value, Value> views;              ///< on such a gather, by the forward part's
};

struct CloneRecomputed : impl::CloneRecomputedBase<CloneRecomputed> {
  void runOnOperation() override {
    auto function = graph::findEntry(getOperation(), graph::Entry::Microstep);
    if (Operation *lossOp = function ? lossOpOf(function) : nullptr)
      Cloner(function.getBody().front(), lossOp).run();
  }
};
} // namespace
} // namespace ztc
