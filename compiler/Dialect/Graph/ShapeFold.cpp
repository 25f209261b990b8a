// Ops that move data: folds and canonical forms. None of them changes a bit of any value.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace ztc::graph;

/// The same splat in another shape; null where `attribute` is none.
static Attribute splatOf(Attribute attribute, RankedTensorType type) {
  auto splat = dyn_cast_if_present<SplatElementsAttr>(attribute);
  return splat && type.hasStaticShape() && !type.getEncoding() ? splat.resizeSplat(type) : Attribute();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = tensorOf(getY());
  if (getX().getType() == type)
    return getX();
  if (auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getX()))
    return dense.reshape(type);
  if (auto resource = dyn_cast_if_present<DenseResourceElementsAttr>(adaptor.getX()))
    return DenseResourceElementsAttr::get(type, resource.getRawHandle());
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(inner.getX());
    return getY();
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  ArrayRef<int64_t> permutation = getPermutation();
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return getX();
  if (Attribute splat = splatOf(adaptor.getX(), tensorOf(getY())))
    return splat;
  if (auto inner = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t from : permutation)
      composed.push_back(inner.getPermutation()[from]);
    getXMutable().assign(inner.getX());
    setPermutation(composed);
    return getY();
  }
  return {};
}

namespace {
/// A transpose that moves only dimensions of size 1 is a reshape: an alias instead of a copy.
struct ReshapeForUnitTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    int64_t last = -1;
    for (int64_t from : op.getPermutation()) {
      if (tensorOf(op.getX()).getDimSize(from) == 1)
        continue;
      if (from < last)
        return failure();
      last = from;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};
} // namespace

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReshapeForUnitTranspose>(context);
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  if (Attribute splat = splatOf(adaptor.getX(), tensorOf(getY())))
    return splat;
  if (auto inner = getX().getDefiningOp<BroadcastOp>()) {
    getXMutable().assign(inner.getX());
    return getY();
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  if (Attribute splat = splatOf(adaptor.getX(), tensorOf(getY())))
    return splat;
  if (auto inner = getX().getDefiningOp<SliceOp>()) {
    SmallVector<int64_t> offsets;
    for (auto [outer, base] : llvm::zip(getOffsets(), inner.getOffsets()))
      offsets.push_back(outer + base);
    getXMutable().assign(inner.getX());
    setOffsets(offsets);
    return getY();
  }
  return {};
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getX().getType() == getY().getType() ? getX() : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 && getInputs()[0].getType() == getY().getType() ? getInputs()[0] : OpFoldResult();
}
