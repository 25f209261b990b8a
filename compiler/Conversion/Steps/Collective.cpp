// What ranks send one another, on a stream of its own.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// record, wait, the collective, record: it starts when the computation is there, on the other stream.
LogicalResult emitStart(Operation *op, StepEmitter &emitter) {
  using Kind = plan_ir::CollectiveKind;
  Kind kind = Kind::AllReduce;
  std::string name = "all_reduce", reason = "the sum of one number over all ranks";
  FlatSymbolRefAttr bucket = dist::bucketOf(op->getOperand(0).getType());
  StartedCollective collective;
  if (isa<dist::AllGatherStartOp>(op)) {
    kind = Kind::AllGather;
    name = "all_gather " + bucket.getValue().str();
    reason = "the shards of all ranks";
    collective.slots = {emitter.operand(op->getOperand(0), Access::Read),
                        emitter.operand(op->getResult(0), Access::Write)};
  } else if (isa<dist::ReduceScatterStartOp>(op)) {
    kind = Kind::ReduceScatter;
    name = "reduce_scatter " + bucket.getValue().str();
    reason = "the sum over all ranks, to each its shard";
    collective.slots = {emitter.operand(op->getOperand(0), Access::ReadWrite), emitter.scratch(op, 0)};
  } else {
    collective.slots = {emitter.operand(op->getOperand(0), Access::ReadWrite), emitter.scratch(op, 0)};
    if (isa<dist::AllReduceMaxStartOp>(op)) {
      kind = Kind::AllReduceMax;
      name = "all_reduce maxima";
      reason = "the largest of all ranks' numbers";
    }
  }
  if (bucket)
    collective.layer = emitter.buckets().layer(bucket);
  StringAttr label = emitter.uniqueLabel(name);
  collective.label = label.str();
  int64_t ready = emitter.nextEvent();
  collective.finished = emitter.nextEvent();
  SmallVector<Attribute> slots = collective.slots;
  int64_t layer = collective.layer, finished = collective.finished;
  emitter.started(op) = std::move(collective);
  emitRecord(emitter, op, "ready", Stream::Compute, ready);
  emitWait(emitter, op, "begin", Stream::Communication, ready, {});
  auto order = op->getAttrOfType<IntegerAttr>("order");
  StepHead head{label, emitter.number(layer), emitter.number(0), emitter.builder().getStringAttr(reason)};
  auto step = emitter.begin<plan_ir::CollectiveOp>(head, slots, Stream::Communication);
  step.kind = plan_ir::CollectiveKindAttr::get(op->getContext(), kind);
  step.bucket = bucket;
  step.axis = op->getAttrOfType<StringAttr>("axis");
  step.type = emitter.elementType(op->getOperand(0));
  step.launch_order = order ? order : emitter.number(0);
  step.only_last = op->getAttrOfType<UnitAttr>("only_last");
  (void)emitter.create<plan_ir::CollectiveOp>(op, step);
  emitRecord(emitter, op, "end", Stream::Communication, finished);
  return success();
}

/// The computation waits for the collective's end; until then the slots that it touches are in use.
LogicalResult emitDone(Operation *op, StepEmitter &emitter) {
  Operation *start = op->getOperand(0).getDefiningOp();
  const StartedCollective &collective = emitter.started(start);
  SmallVector<Attribute> slots = collective.slots;
  emitWait(emitter, start, "done", Stream::Compute, collective.finished, slots);
  return success();
}

template <typename Op> struct StartSteps : StepSourceOpInterface::ExternalModel<StartSteps<Op>, Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const { return emitStart(op, emitter); }
};
template <typename Op> struct DoneSteps : StepSourceOpInterface::ExternalModel<DoneSteps<Op>, Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const { return emitDone(op, emitter); }
};

template <typename Start, typename Done> void attach(MLIRContext &context) {
  Start::template attachInterface<StartSteps<Start>>(context);
  Done::template attachInterface<DoneSteps<Done>>(context);
}

} // namespace

void registerCollectiveStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) {
    attach<dist::AllGatherStartOp, dist::AllGatherDoneOp>(*context);
    attach<dist::ReduceScatterStartOp, dist::ReduceScatterDoneOp>(*context);
    attach<dist::AllReduceStartOp, dist::AllReduceDoneOp>(*context);
    attach<dist::AllReduceMaxStartOp, dist::AllReduceMaxDoneOp>(*context);
  });
}

} // namespace ztc
