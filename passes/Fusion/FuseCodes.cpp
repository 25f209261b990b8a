#include "mlir/IR/Remarks.h"
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/WrittenMatrix.h"

#define DEBUG_TYPE "ztc-fuse-codes"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSECODES
#include "passes/Fusion/Passes.h.inc"

namespace {

/// `fusion` with one more operand, `value`, which `argument` stands for in its body.
graph::FusionOp withOperand(graph::FusionOp fusion, Value value, BlockArgument &argument) {
  fusion.getInputsMutable().append(value);
  argument = fusion.getBody().front().addArgument(value.getType(), value.getLoc());
  return fusion;
}

/// `fusion` without its result `index`, which has no uses.
graph::FusionOp withoutResult(graph::FusionOp fusion, unsigned index) {
  fusion.getBody().front().getTerminator()->eraseOperand(index);
  OpBuilder builder(fusion);
  SmallVector<Type> types(fusion.getOutputs().getTypes());
  types.erase(types.begin() + index);
  auto narrower =
      graph::FusionOp::create(builder, fusion.getLoc(), types, fusion.getInputs(), fusion.getName(), fusion.getKind());
  narrower->setDiscardableAttrs(fusion->getDiscardableAttrDictionary());
  narrower.getBody().takeBody(fusion.getBody());
  for (auto [number, result] : llvm::enumerate(fusion.getOutputs()))
    if (number != index)
      result.replaceAllUsesWith(narrower.getOutputs()[number - (number > index)]);
  fusion.erase();
  return narrower;
}

/// The codes of `part`, written in its own shape. `scale`: two numbers, its inverse first.
Value codesOf(Value part, Value scale, Type format, OpBuilder &builder) {
  auto type = cast<RankedTensorType>(part.getType());
  const Location loc = part.getLoc();
  Value first = graph::SliceOp::create(builder, loc, RankedTensorType::get({1}, builder.getF32Type()), scale,
                                       builder.getDenseI64ArrayAttr(1));
  Value everywhere = graph::BroadcastOp::create(builder, loc, type.clone(builder.getF32Type()), first);
  return graph::Fp8CodesOp::create(builder, loc, type.clone(format), part, everywhere);
}

Value reshaped(Value value, ArrayRef<int64_t> shape, OpBuilder &builder) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return graph::ReshapeOp::create(builder, value.getLoc(), RankedTensorType::get(shape, type.getElementType()), value);
}

/// The scale where it comes about, at the begin of the function: of codes that are made again it is there as it was.
Value knownScale(graph::EncodeFp8Op encode) {
  Value scale = encode.getScale();
  while (auto barrier = scale.getDefiningOp<graph::BarrierOp>())
    scale = barrier.getX();
  return scale;
}

/// Lets the group that writes what `encode` reads write the codes, where it can.
bool fuseCodes(graph::EncodeFp8Op encode) {
  auto written = dyn_cast<OpResult>(withoutReshapes(encode.getX()));
  auto fusion = written ? dyn_cast<graph::FusionOp>(written.getOwner()) : graph::FusionOp();
  if (!fusion || !encode.getByRows() || !encode.getByColumns())
    return false;
  const unsigned number = written.getResultNumber();
  Operation *yield = fusion.getBody().front().getTerminator();
  Value whole = withoutReshapes(yield->getOperand(number));
  SmallVector<Value> parts = partsOf(whole);
  if (parts.empty())
    return false;
  const ArrayRef<int64_t> shape = cast<RankedTensorType>(encode.getX().getType()).getShape();
  const Type format = getElementTypeOrSelf(encode.getCodes().front());
  BlockArgument scale;
  fusion = withOperand(fusion, knownScale(encode), scale);
  OpBuilder builder(yield);
  Value amax = amaxOf(parts, builder), codes;
  if (auto joined = whole.getDefiningOp<graph::ConcatOp>(); joined && parts.front() != whole) {
    SmallVector<Value> columns;
    for (auto [part, input] : llvm::zip_equal(parts, joined.getInputs()))
      columns.push_back(
          reshaped(codesOf(part, scale, format, builder), cast<RankedTensorType>(input.getType()).getShape(), builder));
    codes = graph::ConcatOp::create(builder, joined.getLoc(), cast<RankedTensorType>(whole.getType()).clone(format),
                                    columns, 1);
  } else {
    codes = codesOf(whole, scale, format, builder);
  }
  fusion = withResult(fusion, reshaped(codes, shape, builder));
  fusion = withResult(fusion, amax);
  builder.setInsertionPoint(encode);
  Value rows = fusion.getOutputs().drop_back().back();
  auto note = graph::NoteCodesOp::create(builder, encode.getLoc(), encode.getAmax().getType(),
                                         encode.getCodes().back().getType(), rows, fusion.getOutputs().back());
  note->setDiscardableAttrs(encode->getDiscardableAttrDictionary());
  encode.getAmax().replaceAllUsesWith(note.getAmax());
  encode.getCodes().front().replaceAllUsesWith(rows);
  encode.getCodes().back().replaceAllUsesWith(note.getTransposed());
  Value x = encode.getX();
  encode.erase();
  while (auto reshape = x.use_empty() ? x.getDefiningOp<graph::ReshapeOp>() : graph::ReshapeOp()) {
    x = reshape.getX();
    reshape.erase();
  }
  if (fusion.getOutputs()[number].use_empty())
    withoutResult(fusion, number);
  return true;
}

struct FuseCodes : impl::FuseCodesBase<FuseCodes> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<graph::EncodeFp8Op> encodings(function.getBody().front().getOps<graph::EncodeFp8Op>());
      for (graph::EncodeFp8Op encode : encodings) {
        if (fuseCodes(encode)) {
          isChanged = true;
          continue;
        }
        remark::missed(encode.getLoc(),
                       remark::RemarkOpts::name("fp8").category(DEBUG_TYPE).function(function.getName()))
            << "codes are made by a kernel of their own: a library writes their numbers, or heads are written side by "
               "side, or they are read in one order alone";
      }
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace ztc
