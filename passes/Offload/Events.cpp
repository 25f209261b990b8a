#include "passes/Offload/Events.h"

using namespace mlir;

namespace ztc {

plan_ir::ProgramOp updatingProgram(ModuleOp module) {
  plan_ir::ProgramOp microstep;
  for (auto program : module.getOps<plan_ir::ProgramOp>()) {
    if (program.getSymName() == "update")
      return program;
    if (program.getSymName() == "microstep")
      microstep = program;
  }
  return microstep;
}

Operation *startOfCollective(plan_ir::CollectiveOp collective) {
  Operation *start = collective;
  while (Operation *previous = start->getPrevNode()) {
    if (!isa<plan_ir::RecordOp, plan_ir::WaitOp>(previous))
      break;
    const bool isBegin = isa<plan_ir::WaitOp>(previous) && cast<plan_ir::WaitOp>(previous).getStream() == 1;
    const bool isReady = isa<plan_ir::RecordOp>(previous) && cast<plan_ir::RecordOp>(previous).getStream() == 0 &&
                         start != collective.getOperation();
    if (!isBegin && !isReady)
      break;
    start = previous;
    if (isReady)
      break;
  }
  return start;
}

plan_ir::Space spaceOf(OffloadChoice::Share share, size_t index) {
  return index < share.host                        ? plan_ir::Space::Host
         : index < size_t(share.host) + share.disk ? plan_ir::Space::Disk
                                                   : plan_ir::Space::Device;
}

FailureOr<OffloadChoice> readChoice(ModuleOp module, StringRef text, StringRef form) {
  FailureOr<OffloadChoice> choice = OffloadChoice::parse(text);
  if (failed(choice))
    module.emitError("choice '") << text << "' is not of the form " << form;
  return choice;
}

MoveWriter::MoveWriter(ModuleOp module, OpBuilder &builder) : builder(builder), loc(module.getLoc()) {
  module.walk([&](plan_ir::RecordOp record) { nextEvent = std::max(nextEvent, int64_t(record.getEvent()) + 1); });
}

template <typename Step>
Step::Properties MoveWriter::begin(int64_t stream, int64_t layer, const Twine &label, StringRef reason,
                                   ArrayRef<Attribute> slots) {
  typename Step::Properties step;
  step.label = builder.getStringAttr(label);
  step.slots = builder.getArrayAttr(slots);
  step.layer = builder.getI64IntegerAttr(layer);
  step.stream = builder.getI64IntegerAttr(stream);
  step.reason = builder.getStringAttr(reason);
  step.flops = builder.getI64IntegerAttr(0);
  return step;
}

int64_t MoveWriter::record(int64_t stream, int64_t layer, const Twine &label) {
  auto step = begin<plan_ir::RecordOp>(stream, layer, label, "another stream waits for it", {});
  step.event = builder.getI64IntegerAttr(nextEvent);
  plan_ir::RecordOp::create(builder, loc, TypeRange(), ValueRange(), step);
  return nextEvent++;
}

void MoveWriter::wait(int64_t stream, int64_t event, int64_t layer, const Twine &label, ArrayRef<Attribute> slots) {
  auto step = begin<plan_ir::WaitOp>(stream, layer, label, "for the other stream", slots);
  step.event = builder.getI64IntegerAttr(event);
  plan_ir::WaitOp::create(builder, loc, TypeRange(), ValueRange(), step);
}

void MoveWriter::joinComputation(int64_t layer, const Twine &label) {
  const int64_t event = record(0, layer, label + " free");
  wait(kMoveStream, event, layer, label + " begin", {});
}

void MoveWriter::move(int64_t layer, const Twine &label, ArrayRef<Attribute> slots) {
  auto step = begin<plan_ir::MoveOp>(kMoveStream, layer, label, "it lies below the device", slots);
  plan_ir::MoveOp::create(builder, loc, TypeRange(), ValueRange(), step);
}

Attribute MoveWriter::operand(MLIRContext *context, plan_ir::Access access, FlatSymbolRefAttr slot, bool ownShard,
                              uint64_t piece, uint64_t pieceElements) {
  return plan_ir::OperandAttr::get(context, access, slot, 0, 0, ownShard, piece, pieceElements);
}

} // namespace ztc
