#include "compiler/Conversion/StepEmitter.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/Location.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "compiler/Conversion/StepSource.cpp.inc"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
using plan_ir::Accumulate;

void registerStepSources(DialectRegistry &registry) {
#define ZTC_STEP(Kind) register##Kind##Step(registry);
#include "runtime/Format/Steps/StepKinds.def"
}

namespace {
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
} // namespace

plan_ir::PlaceAttr StepEmitter::placeOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return function_.getArgAttrOfType<plan_ir::PlaceAttr>(argument.getArgNumber(), plan_ir::kPlace);
  auto places = value.getDefiningOp()->getAttrOfType<ArrayAttr>(plan_ir::kPlaces);
  return places ? dyn_cast<plan_ir::PlaceAttr>(places[cast<OpResult>(value).getResultNumber()]) : plan_ir::PlaceAttr();
}

Attribute StepEmitter::operand(Value value, Access access) {
  plan_ir::PlaceAttr place = placeOf(value);
  return plan_ir::OperandAttr::get(builder_.getContext(), access, place.getSlot(), place.getOffset(),
                                   tensorBytes(value.getType()), place.getOwnShard());
}

plan_ir::AccumulateAttr StepEmitter::modeOf(OpResult value) {
  auto modes = value.getOwner()->getAttrOfType<ArrayAttr>(plan_ir::kAccumulate);
  return modes ? cast<plan_ir::AccumulateAttr>(modes[value.getResultNumber()]) : overwrite();
}

plan_ir::AccumulateAttr StepEmitter::overwrite() {
  return plan_ir::AccumulateAttr::get(builder_.getContext(), Accumulate::Overwrite);
}

TypeAttr StepEmitter::elementType(Value value) {
  return TypeAttr::get(getElementTypeOrSelf(value.getType()));
}

Attribute StepEmitter::result(OpResult value) {
  return operand(value, modeOf(value).getValue() == Accumulate::Overwrite ? Access::Write : Access::ReadWrite);
}

Attribute StepEmitter::scratch(Operation *op, unsigned index, Access access) {
  auto place = cast<plan_ir::PlaceAttr>(op->getAttrOfType<ArrayAttr>(plan_ir::kScratch)[index]);
  return plan_ir::OperandAttr::get(builder_.getContext(), access, place.getSlot(), place.getOffset(), 0, false);
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

FlatSymbolRefAttr StepEmitter::bucketOf(Operation *op) {
  if (Type type = bucketType(op))
    return dist::bucketOf(type);
  // A whole one without a mesh; a view of it is a tensor of known length.
  for (Value value : op->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto bucket = function_.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), graph::kBucket))
        return bucket;
  return {};
}

StringAttr StepEmitter::uniqueLabel(std::string label) {
  if (unsigned count = labels_[label]++)
    label += " " + std::to_string(count + 1);
  return builder_.getStringAttr(label);
}

StepHead StepEmitter::describe(Operation *op, StringRef kind, StringRef reason) {
  std::string path = scopeOf(op->getLoc());
  int64_t layer = layerOf(path);
  std::string label;
  if (layer >= 0) {
    label = "layer " + std::to_string(layer) + " ";
    // What follows the block's number: self_attn.q_proj
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
      flops += flatFlops(fusion) * buckets_.elements(flat);
  if (!op->hasAttr(kRecomputation)) // recomputation does not count as the model's work
    flops_ += flops;
  return {uniqueLabel(std::move(label)), number(layer), number(flops), builder_.getStringAttr(reason)};
}

LogicalResult StepEmitter::refuse(Operation *op) {
  return op->emitOpError("has no step: neither a group nor a library call");
}

LogicalResult StepEmitter::emit(Operation *op) {
  for (Value value : op->getOperands())
    if (!placeOf(value))
      return op->emitOpError("reads a value without a place; run ztc-assign-slots first");
  for (Value value : op->getResults())
    if (!placeOf(value))
      return op->emitOpError("has a result without a place; run ztc-assign-slots first");
  if (auto source = dyn_cast<StepSourceOpInterface>(op)) {
    auto owned = op->getAttrOfType<StringAttr>(dist::kOwnedParameter);
    Block *steps = builder_.getInsertionBlock();
    Operation *last = steps->empty() ? nullptr : &steps->back();
    if (failed(source.emitSteps(*this)))
      return failure();
    for (Operation *step = owned ? (last ? last->getNextNode() : &steps->front()) : nullptr; step;
         step = step->getNextNode())
      step->setAttr(dist::kOwnedParameter, owned);
    return success();
  }
  return isFree(op) ? success() : refuse(op);
}

LogicalResult StepEmitter::run() {
  for (Operation &op : function_.getBody().front())
    if (failed(emit(&op)))
      return failure();
  return success();
}

} // namespace ztc
