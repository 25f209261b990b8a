// Emission of softmax and of norms, in primitive ops where graph has no macro op.
#include "frontends/onnx/Emitter.h"

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

Expr meanOver(const Expr &x, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= x.dim(axis);
  return reduceSum(x, axes) / double(count);
}

/// (x - mean) / sqrt(variance + epsilon) over axes; `mean` and `inverse` keep the reduced dimensions.
struct Standardised {
  Expr y, mean, inverse;
};
Standardised standardise(const Expr &x, ArrayRef<int64_t> axes, double epsilon) {
  Expr mean = meanOver(x, axes), centred = x - broadcastLike(mean, x);
  Expr inverse = rsqrt(meanOver(centred * centred, axes) + epsilon);
  return {centred * broadcastLike(inverse, x), mean, inverse};
}

SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(first, rank));
}

LogicalResult softmax(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> inverse;
  mlir::Value rows = e.rowsOfAxis(x, inverse);
  if (typeOf(x).getNumElements() == 0)
    e.define(0, x);
  else
    e.define(0, e.fromRowsOfAxis(graph::SoftmaxOp::create(e.builder, e.loc, rows), inverse));
  return success();
}

LogicalResult logSoftmax(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> inverse;
  Expr rows = e.expr(e.rowsOfAxis(x, inverse)), shifted = rows - broadcastLike(reduceMaxLast(rows), rows);
  Expr y = shifted - broadcastLike(log(reduceSumLast(exp(shifted))), shifted);
  e.define(0, e.fromRowsOfAxis(y.value(), inverse));
  return success();
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from `axis` on.
LogicalResult layerNorm(Emitter &e) {
  mlir::Value x = e.operand(0), scale = x ? e.operand(1, shapeOf(x)) : nullptr;
  if (!scale)
    return failure();
  int64_t rank = typeOf(x).getRank(), axis = e.node->integer("axis", -1);
  axis += axis < 0 ? rank : 0;
  Standardised norm = standardise(e.expr(x), axesFrom(axis, rank), e.node->real("epsilon", 1e-5));
  Expr y = norm.y * e.expr(scale);
  if (e.node->hasInput(2)) {
    mlir::Value bias = e.operand(2, shapeOf(x));
    if (!bias)
      return failure();
    y = y + e.expr(bias);
  }
  e.define(0, y.value());
  e.define(1, norm.mean.value());
  e.define(2, norm.inverse.value());
  return success();
}

/// The macro op over the last dimension; written out over several, or with another scale than a vector.
LogicalResult rmsNorm(Emitter &e) {
  mlir::Value x = e.operand(0), weight = x ? e.operand(1) : nullptr;
  if (!weight)
    return failure();
  int64_t rank = typeOf(x).getRank(), axis = e.node->integer("axis", -1);
  axis += axis < 0 ? rank : 0;
  double epsilon = e.node->real("epsilon", 1e-5);
  bool isRow = axis == rank - 1 && typeOf(weight).getRank() == 1 && shapeOf(weight)[0] == shapeOf(x).back();
  if (isRow && epsilon > 0) {
    e.define(0, graph::RmsNormOp::create(e.builder, e.loc, x, weight, epsilon));
    return success();
  }
  Expr v = e.expr(x), inverse = rsqrt(meanOver(v * v, axesFrom(axis, rank)) + epsilon);
  Expr scale = e.expr(broadcastTo(e.builder, e.loc, weight, shapeOf(x)));
  e.define(0, (v * broadcastLike(inverse, v) * scale).value());
  return success();
}

/// A vector of one number per channel (dimension 1), as wide as x.
mlir::Value perChannel(Emitter &e, mlir::Value vector, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> column(shape.size(), 1);
  column[1] = shapeOf(vector)[0];
  return broadcastTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, vector, column), shape);
}

LogicalResult instanceNorm(Emitter &e) {
  mlir::Value x = e.operand(0), scale = x ? e.operand(1) : nullptr, bias = scale ? e.operand(2) : nullptr;
  if (!bias)
    return failure();
  if (typeOf(x).getRank() < 2)
    return e.fail("normalises a tensor without channels");
  Standardised norm = standardise(e.expr(x), axesFrom(2, typeOf(x).getRank()), e.node->real("epsilon", 1e-5));
  e.define(0, (norm.y * e.expr(perChannel(e, scale, shapeOf(x))) + e.expr(perChannel(e, bias, shapeOf(x)))).value());
  return success();
}

/// Scale and bias are per channel; up to opset 20 they were per group.
LogicalResult groupNorm(Emitter &e) {
  mlir::Value x = e.operand(0), scale = x ? e.operand(1) : nullptr, bias = scale ? e.operand(2) : nullptr;
  if (!bias)
    return failure();
  int64_t groups = e.node->integer("num_groups", 1), channels = typeOf(x).getRank() > 1 ? shapeOf(x)[1] : 0;
  if (channels == 0 || groups < 1 || channels % groups)
    return e.fail("its channels do not fall into num_groups groups");
  SmallVector<int64_t> split{shapeOf(x)[0], groups, typeOf(x).getNumElements() / (shapeOf(x)[0] * groups)};
  Expr rows = e.expr(reshapeTo(e.builder, e.loc, x, split));
  Expr y =
      e.expr(reshapeTo(e.builder, e.loc, standardise(rows, {2}, e.node->real("epsilon", 1e-5)).y.value(), shapeOf(x)));
  auto widened = [&](mlir::Value v) {
    if (shapeOf(v)[0] != channels) {
      mlir::Value column = reshapeTo(e.builder, e.loc, v, {groups, 1});
      v = graph::ReshapeOp::create(e.builder, e.loc, RankedTensorType::get({channels}, typeOf(v).getElementType()),
                                   broadcastTo(e.builder, e.loc, column, {groups, channels / groups}));
    }
    return e.expr(perChannel(e, v, shapeOf(x)));
  };
  e.define(0, (y * widened(scale) + widened(bias)).value());
  return success();
}

LogicalResult meanVarianceNorm(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> axes(e.node->integers("axes"));
  if (axes.empty())
    axes = {0, 2, 3};
  for (int64_t &axis : axes) {
    axis += axis < 0 ? typeOf(x).getRank() : 0;
    if (axis < 0 || axis >= typeOf(x).getRank())
      return e.fail("axis is outside of the operand's rank");
  }
  llvm::sort(axes);
  Expr v = e.expr(x), centred = v - broadcastLike(meanOver(v, axes), v);
  Expr deviation = sqrt(meanOver(centred * centred, axes)) + 1e-9;
  e.define(0, (centred / broadcastLike(deviation, v)).value());
  return success();
}

/// x over its norm along an axis; where that is 0, 0.
LogicalResult lpNorm(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", -1);
  axis += axis < 0 ? typeOf(x).getRank() : 0;
  Expr v = e.expr(x);
  Expr norm = e.node->integer("p", 2) == 1 ? reduceSum(v.with(graph::AbsOp::create(e.builder, e.loc, x)), {axis})
                                           : sqrt(reduceSum(v * v, {axis}));
  Expr wide = broadcastLike(norm, v), isZero = wide == zeroLike(v);
  e.define(0, select(isZero, zeroLike(v), v / select(isZero, constantLike(v, 1), wide)).value());
  return success();
}

} // namespace

void addNormalizationEmission(llvm::StringMap<EmitFunction> &t) {
  t["Softmax"] = softmax;
  t["LogSoftmax"] = logSoftmax;
  t["LayerNormalization"] = layerNorm;
  t["RMSNormalization"] = rmsNorm;
  t["SimplifiedLayerNormalization"] = rmsNorm;
  t["InstanceNormalization"] = instanceNorm;
  t["GroupNormalization"] = groupNorm;
  t["MeanVarianceNormalization"] = meanVarianceNorm;
  t["LpNormalization"] = lpNorm;
}

} // namespace ztc::importer
