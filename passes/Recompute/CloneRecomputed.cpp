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
    findBackwardGathers();
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

  /// Finds the gathers that the backward part reads: those after the loss, and those before it that serve both parts.
  void findBackwardGathers() {
    for (auto gather : block.getOps<dist::AllGatherOp>())
      if (lossOp->isBeforeInBlock(gather) || isReadByBackward(gather.getY(), lossOp))
        gathers[gather.getType()].push_back(gather);
  }

  /// The gather of the same bucket that the backward part has read last where the reader stands, which need not be of
  /// what `forward` serves: after a new one nothing may read an earlier one. Before the first of them that one moves
  /// up; where backward has none there is a new one.
  dist::AllGatherOp backwardGather(dist::AllGatherOp forward) {
    SmallVector<dist::AllGatherOp> &own = gathers[forward.getType()];
    for (dist::AllGatherOp gather : llvm::reverse(own))
      if (gather->isBeforeInBlock(reader))
        return gather;
    builder.setInsertionPoint(reader);
    // Codes are made anew for each gather, in its storage.
    Operation *codes = (own.empty() ? forward : own.front()).getShard().getDefiningOp<dist::ShardCodesOp>();
    if (own.empty()) {
      codes = codes ? builder.clone(*codes) : nullptr;
      own.push_back(cast<dist::AllGatherOp>(builder.clone(*forward)));
      if (codes)
        own.front()->setOperand(0, codes->getResult(0));
    } else {
      own.front()->moveBefore(reader);
      if (codes)
        codes->moveBefore(own.front());
    }
    return own.front();
  }

  /// `value`, a chain of aliases on a gather, as the same chain on `gather`.
  Value onGather(Value value, dist::AllGatherOp gather) {
    if (value.getDefiningOp() == gather || resolveAlias(value).source == gather.getY())
      return value;
    if (isa<dist::AllGatherOp>(value.getDefiningOp()))
      return gather.getY();
    if (Value known = views.lookup({value, gather}))
      return known;
    Value source = onGather(value.getDefiningOp()->getOperand(0), gather);
    builder.setInsertionPoint(reader);
    Operation *clone = builder.clone(*value.getDefiningOp());
    clone->setOperand(0, source);
    return views[{value, gather}] = clone->getResult(0);
  }

  Block &block;
  Operation *lossOp;
  OpBuilder builder;
  Operation *reader = nullptr; ///< the op for which clones are written
  Value after; ///< a gradient that exists where the reader stands; of the loss, that of the last hidden states
  llvm::DenseMap<Value, Value> clones; ///< by the original's result
  llvm::DenseMap<std::pair<Value, Value>, Value> barriers;
  llvm::DenseMap<Type, SmallVector<dist::AllGatherOp>> gathers; ///< that backward reads, in order, by bucket and type
  llvm::DenseMap<std::pair<Value, Operation *>, Value> views;   ///< on such a gather, by the forward part's
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
