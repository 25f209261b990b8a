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
    auto launch = begin<plan_ir::LaunchOp>(common, slots);
    launch.accumulate = plan_ir::AccumulateAttr::get(builder.getContext(), Accumulate::Overwrite);
    launch.extent = number(0);
    launch.grain = number(1);
    launch.flat_block = number(0);
    launch.scalars = builder.getDenseI64ArrayAttr({});
    create<plan_ir::LaunchOp>(op, launch);
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
    auto launch = begin<plan_ir::LaunchOp>(common, slots);
    launch.kernel = spec.getKernel();
    launch.accumulate = mode;
    launch.kernel_add = add;
    launch.extent = number(extent);
    launch.grain = number(spec.getGrain());
    launch.bucket = bucket;
    launch.whole = unit(builder, bucket && !(flat && dist::isShard(flat)));
    launch.flat_block = number(bucket ? spec.getFlatBlock() : 0);
    launch.scalars = bucket ? builder.getDenseI64ArrayAttr({}) : spec.getScalars();
    create<plan_ir::LaunchOp>(op, launch);
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
  auto gemm = begin<plan_ir::GemmOp>(common, slots);
  gemm.m = number(m);
  gemm.n = number(n);
  gemm.k = number(k);
  gemm.lda = number(a.getDimSize(rank - 1));
  gemm.ldb = number(b.getDimSize(rank - 1));
  gemm.ldc = number(n);
  gemm.transpose_a = unit(builder, matmul.getTransposeA());
  gemm.transpose_b = unit(builder, matmul.getTransposeB());
  gemm.batch = number(batch);
  gemm.stride_a = stride(a);
  gemm.stride_b = stride(b);
  gemm.stride_c = stride(y);
  gemm.accumulate = modeOf(op->getResult(0));
  gemm.type_a = elementType(matmul.getA());
  gemm.type_c = elementType(matmul.getY());
  create<plan_ir::GemmOp>(op, gemm);
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
  auto attention = begin<plan_ir::AttentionOp>(common, slots);
  attention.batch = number(dimension(q, 0));
  attention.seq = number(dimension(q, 1));
  attention.heads = number(dimension(q, 2));
  attention.kv_heads = number(dimension(k, 2));
  attention.head_dim = number(dimension(q, 3));
  attention.scale = grad ? grad.getScaleAttr() : forward.getScaleAttr();
  attention.causal = unit(builder, grad ? grad.getCausal() : forward.getCausal());
  attention.window = number(grad ? grad.getWindow() : forward.getWindow());
  attention.block = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
  attention.softmax_kernel = serviceKernel(op, "softmax_kernel");
  attention.softmax_grad_kernel = serviceKernel(op, "softmax_grad_kernel");
  attention.row_dot_kernel = serviceKernel(op, "row_dot_kernel");
  attention.grad = unit(builder, bool(grad));
  attention.type = elementType(q);
  attention.gpu_kernels = gpuKernels(op);
  create<plan_ir::AttentionOp>(op, attention);
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
  }
  if (loss.getDhead()) {
    slots.push_back(result(cast<OpResult>(loss.getDhead())));
    accumulate = modeOf(cast<OpResult>(loss.getDhead()));
  }
  if (op->getAttrOfType<ArrayAttr>(plan_ir::kScratch).size() > 1)
    slots.push_back(scratch(op, 1));
  Common common = describe(op, "linear_cross_entropy", "head and loss in chunks: library products, generated rows");
  auto step = begin<plan_ir::LinearCrossEntropyOp>(common, slots);
  step.tokens = number(dimension(loss.getHidden(), 0));
  step.width = number(dimension(loss.getHidden(), 1));
  step.vocabulary = number(dimension(loss.getHead(), 0));
  step.chunk = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
  step.training = unit(builder, training);
  step.accumulate = accumulate;
  step.loss_accumulate = modeOf(op->getResult(0));
  step.rows_kernel = serviceKernel(op, "rows_kernel");
  step.type = elementType(loss.getHidden());
  step.gpu_chunk = number(gpuLinearCrossEntropyChunk(dimension(loss.getHidden(), 0), dimension(loss.getHead(), 0)));
  step.gpu_kernels = gpuKernels(op);
  create<plan_ir::LinearCrossEntropyOp>(op, step);
}

void StepEmitter::emitGather(Operation *op) {
  auto embedding = cast<graph::EmbeddingOp>(op);
  int64_t rowBytes = tensorBytes(embedding.getTable().getType()) / dimension(embedding.getTable(), 0);
  Common common = describe(op, "embedding", "rows by index: library");
  auto gather =
      begin<plan_ir::GatherOp>(common, {operand(embedding.getTable(), Access::Read),
                                        operand(embedding.getIndices(), Access::Read), result(op->getResult(0))});
  gather.rows = number(elements(embedding.getIndices()));
  gather.row_bytes = number(rowBytes);
  gather.table_rows = number(dimension(embedding.getTable(), 0));
  gather.gpu_kernels = gpuKernels(op);
  create<plan_ir::GatherOp>(op, gather);
}

void StepEmitter::emitScatterAdd(Operation *op) {
  auto grad = cast<graph::EmbeddingGradOp>(op);
  Common common = describe(op, "embedding_grad", "rows added by index, in order: library");
  auto scatter = begin<plan_ir::ScatterAddOp>(common, {operand(grad.getIndices(), Access::Read),
                                                       operand(grad.getDy(), Access::Read), result(op->getResult(0))});
  scatter.rows = number(elements(grad.getIndices()));
  scatter.width = number(dimension(grad.getDtable(), 1));
  scatter.table_rows = number(dimension(grad.getDtable(), 0));
  scatter.accumulate = modeOf(op->getResult(0));
  scatter.type = elementType(grad.getDy());
  scatter.gpu_kernels = gpuKernels(op);
  create<plan_ir::ScatterAddOp>(op, scatter);
}

void StepEmitter::emitCopy(Operation *op) {
  Common common = describe(op, "copy", "a copy was unavoidable");
  auto copy = begin<plan_ir::CopyOp>(
      common, {operand(op->getOperand(0), Access::Read), operand(op->getResult(0), Access::Write)});
  copy.bytes = number(tensorBytes(op->getResult(0).getType()));
  create<plan_ir::CopyOp>(op, copy);
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
  auto narrow = begin<plan_ir::NarrowOp>(
      common, {operand(op->getOperand(0), Access::Read), operand(op->getResult(0), Access::Write)});
  narrow.from = elementType(op->getOperand(0));
  narrow.to = elementType(op->getResult(0));
  narrow.only_last = isSum ? builder.getUnitAttr() : (*op->user_begin())->getAttrOfType<UnitAttr>("only_last");
  narrow.gpu_kernels = gpuKernels(op);
  create<plan_ir::NarrowOp>(op, narrow);
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
    auto zeros = begin<plan_ir::FillOp>(common, {slot});
    zeros.value = number(0);
    create<plan_ir::FillOp>(op, zeros);
  };
  for (auto [part, offset] : llvm::zip_equal(pack.getParts(), pack.getOffsets())) {
    fill(end, offset);
    end = offset + elements(part);
  }
  fill(end, buckets.elements(pack.getBucket().getType()));
}

void StepEmitter::emitRecord(Operation *start, StringRef what, Stream stream, int64_t event) {
  const Pending &collective = pending[start];
  Common common{uniqueLabel((collective.label + " " + what).str()), number(collective.layer), number(0),
                builder.getStringAttr("another stream waits for it")};
  auto record = begin<plan_ir::RecordOp>(common, {}, stream);
  record.event = number(event);
  record.only_last = start->getAttrOfType<UnitAttr>("only_last");
  create<plan_ir::RecordOp>(start, record);
}

void StepEmitter::emitWait(Operation *start, StringRef what, Stream stream, int64_t event, ArrayRef<Attribute> slots) {
  const Pending &collective = pending[start];
  Common common{uniqueLabel((collective.label + " " + what).str()), number(collective.layer), number(0),
                builder.getStringAttr("for the other stream")};
  auto wait = begin<plan_ir::WaitOp>(common, slots, stream);
  wait.event = number(event);
  wait.only_last = start->getAttrOfType<UnitAttr>("only_last");
  create<plan_ir::WaitOp>(start, wait);
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
  Common common{label, number(layer), number(0), builder.getStringAttr(reason)};
  auto step = begin<plan_ir::CollectiveOp>(common, slots, Stream::Communication);
  step.kind = plan_ir::CollectiveKindAttr::get(builder.getContext(), kind);
  step.bucket = bucket;
  step.axis = op->getAttrOfType<StringAttr>("axis");
  step.type = elementType(op->getOperand(0));
  step.launch_order = order ? order : number(0);
  step.only_last = op->getAttrOfType<UnitAttr>("only_last");
  create<plan_ir::CollectiveOp>(op, step);
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
