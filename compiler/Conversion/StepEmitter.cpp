#include "compiler/Conversion/StepEmitter.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/Location.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
using plan_ir::Accumulate;

namespace {

int64_t dimension(Value value, unsigned index) {
  return cast<RankedTensorType>(value.getType()).getDimSize(index);
}
int64_t elements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}
/// Operations per element of a group over a bucket, whose length no type says.
int64_t flatFlops(graph::FusionOp fusion) {
  int64_t count = 0;
  for (Operation &op : fusion.getBody().front()) {
    if (isa<graph::SumSquaresOp>(op))
      count += 2;
    else if (op.hasTrait<OpTrait::Elementwise>() && dist::bucketOf(op.getResult(0).getType()))
      count += 1;
  }
  return count;
}
UnitAttr unit(OpBuilder &builder, bool set) {
  return set ? builder.getUnitAttr() : UnitAttr();
}
TypeAttr elementType(Value value) {
  return TypeAttr::get(getElementTypeOrSelf(value.getType()));
}

} // namespace

plan_ir::PlaceAttr StepEmitter::placeOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return function.getArgAttrOfType<plan_ir::PlaceAttr>(argument.getArgNumber(), plan_ir::kPlace);
  auto places = value.getDefiningOp()->getAttrOfType<ArrayAttr>(plan_ir::kPlaces);
  return places ? dyn_cast<plan_ir::PlaceAttr>(places[cast<OpResult>(value).getResultNumber()]) : plan_ir::PlaceAttr();
}

Attribute StepEmitter::operand(Value value, Access access) {
  plan_ir::PlaceAttr place = placeOf(value);
  return plan_ir::OperandAttr::get(builder.getContext(), access, place.getSlot(), place.getOffset(),
                                   tensorBytes(value.getType()), place.getOwnShard());
}

plan_ir::AccumulateAttr StepEmitter::modeOf(OpResult value) {
  auto modes = value.getOwner()->getAttrOfType<ArrayAttr>(plan_ir::kAccumulate);
  return modes ? cast<plan_ir::AccumulateAttr>(modes[value.getResultNumber()])
               : plan_ir::AccumulateAttr::get(builder.getContext(), Accumulate::Overwrite);
}

Attribute StepEmitter::result(OpResult value) {
  return operand(value, modeOf(value).getValue() == Accumulate::Overwrite ? Access::Write : Access::ReadWrite);
}

Attribute StepEmitter::scratch(Operation *op, unsigned index, Access access) {
  auto place = cast<plan_ir::PlaceAttr>(op->getAttrOfType<ArrayAttr>(plan_ir::kScratch)[index]);
  return plan_ir::OperandAttr::get(builder.getContext(), access, place.getSlot(), place.getOffset(), 0, false);
}

FlatSymbolRefAttr StepEmitter::serviceKernel(Operation *op, StringRef field) {
  auto kernels = op->getAttrOfType<DictionaryAttr>(plan_ir::kServiceKernels);
  return kernels ? kernels.getAs<FlatSymbolRefAttr>(field) : FlatSymbolRefAttr();
}

ArrayAttr StepEmitter::gpuKernels(Operation *op) {
  auto kernels = op->getAttrOfType<DictionaryAttr>(plan_ir::kServiceKernels);
  return kernels ? kernels.getAs<ArrayAttr>("gpu_kernels") : ArrayAttr();
}

Type StepEmitter::bucketType(Operation *op) {
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (dist::bucketOf(type))
        return type;
  return {};
}

/// The bucket that a flat kernel works on.
FlatSymbolRefAttr StepEmitter::bucketOf(Operation *op) {
  if (Type type = bucketType(op))
    return dist::bucketOf(type);
  // A whole one without a mesh; a view of it is a tensor of known length.
  for (Value value : op->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), graph::kBucket))
        return bucket;
  return {};
}

StringAttr StepEmitter::uniqueLabel(std::string label) {
  if (unsigned count = labels[label]++)
    label += " " + std::to_string(count + 1);
  return builder.getStringAttr(label);
}

StepEmitter::Common StepEmitter::describe(Operation *op, StringRef kind, StringRef reason) {
  std::string path = scopeOf(op->getLoc());
  int64_t layer = layerOf(path);
  std::string label;
  if (layer >= 0) {
    label = "layer " + std::to_string(layer) + " ";
    // What stands behind the block's number: self_attn.q_proj
    StringRef rest = StringRef(path).split("." + std::to_string(layer) + ".").second;
    if (!rest.empty())
      label += rest.str() + " ";
  } else if (!path.empty()) {
    label = path + " ";
  }
  label += kind;
  int64_t flops = 0;
  if (auto cost = dyn_cast<CostOpInterface>(op))
    flops = cost.getFlops();
  if (auto fusion = dyn_cast<graph::FusionOp>(op))
    if (Type flat = bucketType(op))
      flops += flatFlops(fusion) * buckets.elements(flat);
  if (!op->hasAttr(kRecomputation)) // what is computed again is no work of the model
    totalFlops += flops;
  return {uniqueLabel(std::move(label)), number(layer), number(flops), builder.getStringAttr(reason)};
}

LogicalResult StepEmitter::emitLaunches(Operation *op) {
  auto fusion = cast<graph::FusionOp>(op);
  auto launches = op->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
  StringRef why = fusion.getReason().value_or("");
  if (!launches) {
    // A plan for memory reports: no kernels were selected.
    Common common = describe(op, fusion.getName(), why);
    SmallVector<Attribute> slots;
    for (Value value : op->getOperands())
      slots.push_back(operand(value, Access::Read));
    for (OpResult value : op->getResults())
      slots.push_back(result(value));
    plan_ir::LaunchOp::create(builder, op->getLoc(), common.label, builder.getArrayAttr(slots), common.layer, number(0),
                              common.reason, common.flops, FlatSymbolRefAttr(),
                              plan_ir::AccumulateAttr::get(builder.getContext(), Accumulate::Overwrite),
                              FlatSymbolRefAttr(), number(0), number(1), FlatSymbolRefAttr(), UnitAttr(), number(0),
                              builder.getDenseI64ArrayAttr({}));
    return success();
  }
  for (auto [index, spec] : llvm::enumerate(launches.getAsRange<plan_ir::LaunchSpecAttr>())) {
    std::string name = fusion.getName().str();
    if (launches.size() > 1)
      name += spec.getForm().getValue() == "fold" ? " fold" : " rows";
    Common common = describe(op, name, (spec.getForm().getValue() + " kernel" + (why.empty() ? "" : ": ") + why).str());
    if (index)
      common.flops = number(0);
    SmallVector<Attribute> slots;
    auto mode = plan_ir::AccumulateAttr::get(builder.getContext(), Accumulate::Overwrite);
    bool first = true;
    ArrayRef<int64_t> buffers = spec.getBuffers().asArrayRef();
    for (; buffers.size() >= 3; buffers = buffers.drop_front(3)) {
      bool written = buffers[2];
      if (buffers[0] == 0) {
        slots.push_back(operand(op->getOperand(buffers[1]), Access::Read));
      } else if (buffers[0] == 2) {
        slots.push_back(scratch(op, buffers[1], written ? Access::Write : Access::Read));
      } else if (!written) {
        slots.push_back(operand(op->getResult(buffers[1]), Access::Read));
      } else {
        slots.push_back(result(op->getResult(buffers[1])));
        plan_ir::AccumulateAttr own = modeOf(op->getResult(buffers[1]));
        if (!first && own != mode)
          return op->emitOpError("one kernel adds to one of its results and overwrites another");
        mode = own;
        first = false;
      }
    }
    FlatSymbolRefAttr add;
    if (mode.getValue() != Accumulate::Overwrite) {
      if (!spec.getHasAdd())
        return op->emitOpError("no kernel variant that adds to its results: ") << spec.getKernel();
      add = FlatSymbolRefAttr::get(builder.getContext(), (spec.getKernel().getValue() + "_add").str());
    }
    FlatSymbolRefAttr bucket = spec.getFlatBlock() ? bucketOf(op) : FlatSymbolRefAttr();
    Type flat = bucketType(op);
    // Of an open length the kernel's range is cut into blocks at run time, unless it has but one unit.
    int64_t extent = bucket && !flat ? 0 : spec.getExtent();
    plan_ir::LaunchOp::create(builder, op->getLoc(), common.label, builder.getArrayAttr(slots), common.layer, number(0),
                              common.reason, common.flops, spec.getKernel(), mode, add, number(extent),
                              number(spec.getGrain()), bucket, unit(builder, bucket && !(flat && dist::isShard(flat))),
                              number(bucket ? spec.getFlatBlock() : 0),
                              bucket ? builder.getDenseI64ArrayAttr({}) : spec.getScalars());
  }
  return success();
}

void StepEmitter::emitGemm(Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  auto a = cast<RankedTensorType>(matmul.getA().getType()), b = cast<RankedTensorType>(matmul.getB().getType());
  auto y = cast<RankedTensorType>(matmul.getY().getType());
  unsigned rank = y.getRank();
  int64_t m = y.getDimSize(rank - 2), n = y.getDimSize(rank - 1),
          k = a.getDimSize(matmul.getTransposeA() ? rank - 2 : rank - 1);
  int64_t batch = 1;
  for (unsigned i = 0; i + 2 < rank; ++i)
    batch *= y.getDimSize(i);
  auto stride = [&](RankedTensorType type) {
    return number(batch > 1 ? type.getDimSize(rank - 2) * type.getDimSize(rank - 1) : 0);
  };
  Common common = describe(op, "matmul", "matrix product: library");
  SmallVector<Attribute> slots{operand(matmul.getA(), Access::Read), operand(matmul.getB(), Access::Read),
                               result(op->getResult(0))};
  if (op->hasAttr(plan_ir::kScratch))
    slots.push_back(scratch(op, 0));
  plan_ir::GemmOp::create(builder, op->getLoc(), common.label, builder.getArrayAttr(slots), common.layer, number(0),
                          common.reason, common.flops, number(m), number(n), number(k), number(a.getDimSize(rank - 1)),
                          number(b.getDimSize(rank - 1)), number(n), unit(builder, matmul.getTransposeA()),
                          unit(builder, matmul.getTransposeB()), number(batch), stride(a), stride(b), stride(y),
                          modeOf(op->getResult(0)), elementType(matmul.getA()), elementType(matmul.getY()));
}

void StepEmitter::emitAttention(Operation *op) {
  auto forward = dyn_cast<graph::AttentionOp>(op);
  auto grad = dyn_cast<graph::AttentionGradOp>(op);
  SmallVector<Attribute> slots;
  for (Value value : op->getOperands())
    slots.push_back(operand(value, Access::Read));
  for (OpResult value : op->getResults())
    slots.push_back(result(value));
  // Grad operands: q, k, v, out, lse, dout, dq, dk, dv, scratch; the forward form: q, k, v, out, lse, scratch.
  unsigned used = 0;
  if (forward && !forward.getLse())
    slots.push_back(scratch(op, used++));
  slots.push_back(scratch(op, used));
  Value q = op->getOperand(0), k = op->getOperand(1);
  Common common =
      describe(op, grad ? "attention_grad" : "attention", "blocked attention: library products, generated rows");
  FloatAttr scale = grad ? grad.getScaleAttr() : forward.getScaleAttr();
  bool causal = grad ? grad.getCausal() : forward.getCausal();
  int64_t window = grad ? grad.getWindow() : forward.getWindow();
  plan_ir::AttentionOp::create(builder, op->getLoc(), common.label, builder.getArrayAttr(slots), common.layer,
                               number(0), common.reason, common.flops, number(dimension(q, 0)), number(dimension(q, 1)),
                               number(dimension(q, 2)), number(dimension(k, 2)), number(dimension(q, 3)), scale,
                               unit(builder, causal), number(window), op->getAttrOfType<IntegerAttr>(plan_ir::kChunk),
                               serviceKernel(op, "softmax_kernel"), serviceKernel(op, "softmax_grad_kernel"),
                               serviceKernel(op, "row_dot_kernel"), unit(builder, bool(grad)), elementType(q),
                               gpuKernels(op));
}

void StepEmitter::emitLinearCrossEntropy(Operation *op) {
  auto loss = cast<graph::LinearCrossEntropyOp>(op);
  bool training = bool(loss.getScale());
  SmallVector<Attribute> slots{operand(loss.getHidden(), Access::Read), operand(loss.getHead(), Access::Read),
                               operand(loss.getTargets(), Access::Read), result(op->getResult(0)), scratch(op, 0)};
  auto accumulate = plan_ir::AccumulateAttr::get(builder.getContext(), Accumulate::Overwrite);
  if (training) {
    slots.push_back(operand(loss.getScale(), Access::Read));
    slots.push_back(result(cast<OpResult>(loss.getDhidden())));
    slots.push_back(result(cast<OpResult>(loss.getDhead())));
    accumulate = modeOf(cast<OpResult>(loss.getDhead()));
  }
  if (op->getAttrOfType<ArrayAttr>(plan_ir::kScratch).size() > 1)
    slots.push_back(scratch(op, 1));
  Common common = describe(op, "linear_cross_entropy", "head and loss in chunks: library products, generated rows");
  plan_ir::LinearCrossEntropyOp::create(
      builder, op->getLoc(), common.label, builder.getArrayAttr(slots), common.layer, number(0), common.reason,
      common.flops, number(dimension(loss.getHidden(), 0)), number(dimension(loss.getHidden(), 1)),
      number(dimension(loss.getHead(), 0)), op->getAttrOfType<IntegerAttr>(plan_ir::kChunk), unit(builder, training),
      accumulate, modeOf(op->getResult(0)), serviceKernel(op, "rows_kernel"), elementType(loss.getHidden()),
      number(gpuLinearCrossEntropyChunk(dimension(loss.getHidden(), 0), dimension(loss.getHead(), 0))), gpuKernels(op));
}

void StepEmitter::emitGather(Operation *op) {
  auto embedding = cast<graph::EmbeddingOp>(op);
  int64_t rowBytes = tensorBytes(embedding.getTable().getType()) / dimension(embedding.getTable(), 0);
  Common common = describe(op, "embedding", "rows by index: library");
  plan_ir::GatherOp::create(
      builder, op->getLoc(), common.label,
      builder.getArrayAttr({operand(embedding.getTable(), Access::Read), operand(embedding.getIndices(), Access::Read),
                            result(op->getResult(0))}),
      common.layer, number(0), common.reason, common.flops, number(elements(embedding.getIndices())), number(rowBytes),
      number(dimension(embedding.getTable(), 0)), gpuKernels(op));
}

void StepEmitter::emitScatterAdd(Operation *op) {
  auto grad = cast<graph::EmbeddingGradOp>(op);
  Common common = describe(op, "embedding_grad", "rows added by index, in order: library");
  plan_ir::ScatterAddOp::create(builder, op->getLoc(), common.label,
                                builder.getArrayAttr({operand(grad.getIndices(), Access::Read),
                                                      operand(grad.getDy(), Access::Read), result(op->getResult(0))}),
                                common.layer, number(0), common.reason, common.flops,
                                number(elements(grad.getIndices())), number(dimension(grad.getDtable(), 1)),
                                number(dimension(grad.getDtable(), 0)), modeOf(op->getResult(0)),
                                elementType(grad.getDy()), gpuKernels(op));
}

void StepEmitter::emitCopy(Operation *op) {
  Common common = describe(op, "copy", "a copy was unavoidable");
  plan_ir::CopyOp::create(
      builder, op->getLoc(), common.label,
      builder.getArrayAttr({operand(op->getOperand(0), Access::Read), operand(op->getResult(0), Access::Write)}),
      common.layer, number(0), common.reason, common.flops, number(tensorBytes(op->getResult(0).getType())));
  remarkTexts.push_back(function.getName().str() + ": " + common.label.str() + ": a copy was unavoidable");
}

/// A gradient, rounded to the type of the wire: in place where the planner puts both into one accumulator, so it must
/// happen when nothing adds to that any more.
LogicalResult StepEmitter::emitNarrow(Operation *op) {
  auto isReduced = [](Operation *user) { return isa<dist::ReduceScatterStartOp>(user); };
  const bool isSum = isSumCast(op);
  if (!isSum && (!op->hasOneUse() || !isReduced(*op->user_begin())))
    return op->emitOpError("rounds a gradient that is not reduced");
  Common common = describe(op, "round",
                           isSum ? "the update reads gradients in the type of the parameters"
                                 : "gradients go over the wire in the type of the parameters");
  UnitAttr onlyLast = isSum ? builder.getUnitAttr() : (*op->user_begin())->getAttrOfType<UnitAttr>("only_last");
  plan_ir::NarrowOp::create(
      builder, op->getLoc(), common.label,
      builder.getArrayAttr({operand(op->getOperand(0), Access::Read), operand(op->getResult(0), Access::Write)}),
      common.layer, number(0), common.reason, common.flops, elementType(op->getOperand(0)),
      elementType(op->getResult(0)), onlyLast, gpuKernels(op));
  return success();
}

/// Zeros where a pack has no part: the gradient norm and collectives read whole buckets.
void StepEmitter::emitGaps(Operation *op) {
  auto pack = cast<dist::PackOp>(op);
  plan_ir::PlaceAttr place = placeOf(pack.getBucket());
  int64_t width = (getElementTypeOrSelf(pack.getBucket().getType()).getIntOrFloatBitWidth() + 7) / 8, end = 0;
  auto fill = [&](int64_t from, int64_t to) {
    if (from == to)
      return;
    Common common = describe(op, "gap", "a bucket is zero between parameters");
    auto slot = plan_ir::OperandAttr::get(builder.getContext(), Access::Write, place.getSlot(),
                                          place.getOffset() + from * width, (to - from) * width, false);
    plan_ir::FillOp::create(builder, op->getLoc(), common.label, builder.getArrayAttr({slot}), common.layer, number(0),
                            common.reason, common.flops, number(0));
  };
  for (auto [part, offset] : llvm::zip_equal(pack.getParts(), pack.getOffsets())) {
    fill(end, offset);
    end = offset + elements(part);
  }
  fill(end, buckets.elements(pack.getBucket().getType()));
}

void StepEmitter::emitRecord(Operation *start, StringRef what, Stream stream, int64_t event) {
  const Pending &collective = pending[start];
  plan_ir::RecordOp::create(builder, start->getLoc(), uniqueLabel((collective.label + " " + what).str()),
                            builder.getArrayAttr({}), number(collective.layer), number(int64_t(stream)),
                            builder.getStringAttr("another stream waits for it"), number(0), number(event),
                            start->getAttrOfType<UnitAttr>("only_last"));
}

void StepEmitter::emitWait(Operation *start, StringRef what, Stream stream, int64_t event, ArrayRef<Attribute> slots) {
  const Pending &collective = pending[start];
  plan_ir::WaitOp::create(builder, start->getLoc(), uniqueLabel((collective.label + " " + what).str()),
                          builder.getArrayAttr(slots), number(collective.layer), number(int64_t(stream)),
                          builder.getStringAttr("for the other stream"), number(0), number(event),
                          start->getAttrOfType<UnitAttr>("only_last"));
}

void StepEmitter::emitStart(Operation *op) {
  using Kind = plan_ir::CollectiveKind;
  Kind kind = Kind::AllReduce;
  std::string name = "all_reduce", reason = "the sum of one number over all ranks";
  FlatSymbolRefAttr bucket = dist::bucketOf(op->getOperand(0).getType());
  Pending collective;
  if (isa<dist::AllGatherStartOp>(op)) {
    kind = Kind::AllGather;
    name = "all_gather " + bucket.getValue().str();
    reason = "the shards of all ranks";
    collective.slots = {operand(op->getOperand(0), Access::Read), operand(op->getResult(0), Access::Write)};
  } else if (isa<dist::ReduceScatterStartOp>(op)) {
    kind = Kind::ReduceScatter;
    name = "reduce_scatter " + bucket.getValue().str();
    reason = "the sum over all ranks, to each its shard";
    collective.slots = {operand(op->getOperand(0), Access::ReadWrite), scratch(op, 0)};
  } else {
    collective.slots = {operand(op->getOperand(0), Access::ReadWrite), scratch(op, 0)};
  }
  if (bucket)
    collective.layer = layerOfBucket(bucket.getValue());
  StringAttr label = uniqueLabel(name);
  collective.label = label.str();
  int64_t ready = events++;
  collective.finished = events++;
  SmallVector<Attribute> slots = collective.slots;
  int64_t layer = collective.layer, finished = collective.finished;
  pending[op] = std::move(collective);
  emitRecord(op, "ready", Stream::Compute, ready);
  emitWait(op, "begin", Stream::Communication, ready, {});
  auto order = op->getAttrOfType<IntegerAttr>("order");
  plan_ir::CollectiveOp::create(builder, op->getLoc(), label, builder.getArrayAttr(slots), number(layer),
                                number(int64_t(Stream::Communication)), builder.getStringAttr(reason), number(0),
                                plan_ir::CollectiveKindAttr::get(builder.getContext(), kind), bucket,
                                op->getAttrOfType<StringAttr>("axis"), elementType(op->getOperand(0)),
                                order ? order : number(0), op->getAttrOfType<UnitAttr>("only_last"));
  emitRecord(op, "end", Stream::Communication, finished);
}

void StepEmitter::emitDone(Operation *op) {
  Operation *start = op->getOperand(0).getDefiningOp();
  const Pending &collective = pending[start];
  SmallVector<Attribute> slots = collective.slots;
  emitWait(start, "done", Stream::Compute, collective.finished, slots);
}

LogicalResult StepEmitter::emit(Operation *op) {
  for (Value value : op->getOperands())
    if (!placeOf(value))
      return op->emitOpError("reads a value without a place; run ztc-assign-slots first");
  for (Value value : op->getResults())
    if (!placeOf(value))
      return op->emitOpError("has a result without a place; run ztc-assign-slots first");
  if (isa<graph::FusionOp>(op))
    return emitLaunches(op);
  if (isWireCast(op))
    return emitNarrow(op);
  using Emit = void (StepEmitter::*)(Operation *);
  static const llvm::StringMap<Emit> table{
      {graph::MatmulOp::getOperationName(), &StepEmitter::emitGemm},
      {graph::AttentionOp::getOperationName(), &StepEmitter::emitAttention},
      {graph::AttentionGradOp::getOperationName(), &StepEmitter::emitAttention},
      {graph::LinearCrossEntropyOp::getOperationName(), &StepEmitter::emitLinearCrossEntropy},
      {graph::EmbeddingOp::getOperationName(), &StepEmitter::emitGather},
      {graph::EmbeddingGradOp::getOperationName(), &StepEmitter::emitScatterAdd},
      {dist::AllGatherStartOp::getOperationName(), &StepEmitter::emitStart},
      {dist::AllGatherDoneOp::getOperationName(), &StepEmitter::emitDone},
      {dist::ReduceScatterStartOp::getOperationName(), &StepEmitter::emitStart},
      {dist::ReduceScatterDoneOp::getOperationName(), &StepEmitter::emitDone},
      {dist::AllReduceStartOp::getOperationName(), &StepEmitter::emitStart},
      {dist::AllReduceDoneOp::getOperationName(), &StepEmitter::emitDone},
      {dist::CopyOp::getOperationName(), &StepEmitter::emitCopy},
      {dist::PackOp::getOperationName(), &StepEmitter::emitGaps},
  };
  if (auto found = table.find(op->getName().getStringRef()); found != table.end()) {
    (this->*found->second)(op);
    return success();
  }
  if (isFree(op))
    return success();
  return op->emitOpError("has no step: neither a group nor a library call");
}

LogicalResult StepEmitter::run() {
  for (Operation &op : function.getBody().front())
    if (failed(emit(&op)))
      return failure();
  return success();
}

} // namespace ztc
