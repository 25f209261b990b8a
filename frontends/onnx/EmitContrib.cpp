// Emission of the operators that onnxruntime's optimizer and model builder write (domain com.microsoft), in plain
// graph ops.
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/Formulas.h"

using namespace mlir;

namespace ztc::importer {
namespace {

mlir::Value times(Emitter &e, mlir::Value x, double factor) {
  return factor == 1 ? x
                     : graph::MulOp::create(e.builder, e.loc, x, splatLike(e.builder, e.loc, x, factor)).getResult();
}

mlir::Value meanOfRows(Emitter &e, mlir::Value x) {
  mlir::Value sum = graph::ReduceSumOp::create(e.builder, e.loc, x, ArrayRef<int64_t>{typeOf(x).getRank() - 1});
  return graph::DivOp::create(e.builder, e.loc, sum, splatLike(e.builder, e.loc, sum, double(shapeOf(x).back())));
}

/// input + skip + bias, which the fourth result hands on.
mlir::Value skipSum(Emitter &e, unsigned biasInput) {
  ArrayRef<int64_t> shape = e.outputShape();
  mlir::Value x = e.operand(0, shape), skip = x ? e.operand(1, shape) : nullptr;
  if (!skip)
    return nullptr;
  mlir::Value sum = graph::AddOp::create(e.builder, e.loc, x, skip);
  if (e.node->hasInput(biasInput)) {
    mlir::Value bias = e.operand(biasInput, shape);
    if (!bias)
      return nullptr;
    sum = graph::AddOp::create(e.builder, e.loc, sum, bias);
  }
  if (e.node->outputs.size() > 3 && !e.node->outputs[3].empty())
    e.define(3, sum);
  return sum;
}

LogicalResult skipRmsNorm(Emitter &e) {
  mlir::Value sum = skipSum(e, 3), weight = sum ? e.operand(2) : nullptr;
  if (!weight)
    return failure();
  e.define(0, graph::RmsNormOp::create(e.builder, e.loc, sum, weight, e.node->real("epsilon", 1e-5)));
  return success();
}

LogicalResult skipLayerNorm(Emitter &e) {
  mlir::Value sum = skipSum(e, 4), scale = sum ? e.operand(2, e.outputShape()) : nullptr;
  if (!scale)
    return failure();
  OpBuilder &b = e.builder;
  mlir::Value centred = graph::SubOp::create(b, e.loc, sum, broadcastTo(b, e.loc, meanOfRows(e, sum), shapeOf(sum)));
  mlir::Value variance = meanOfRows(e, graph::MulOp::create(b, e.loc, centred, centred));
  mlir::Value shifted =
      graph::AddOp::create(b, e.loc, variance, splatLike(b, e.loc, variance, e.node->real("epsilon", 1e-12)));
  mlir::Value inverse = graph::RsqrtOp::create(b, e.loc, shifted);
  mlir::Value y = graph::MulOp::create(b, e.loc, centred, broadcastTo(b, e.loc, inverse, shapeOf(sum)));
  y = graph::MulOp::create(b, e.loc, y, scale);
  if (e.node->hasInput(3)) {
    mlir::Value shift = e.operand(3, e.outputShape());
    if (!shift)
      return failure();
    y = graph::AddOp::create(b, e.loc, y, shift);
  }
  e.define(0, y);
  return success();
}

/// The first operand plus the second, where there is one.
mlir::Value biased(Emitter &e) {
  mlir::Value x = e.operand(0, e.outputShape());
  if (!x || !e.node->hasInput(1))
    return x;
  mlir::Value bias = e.operand(1, e.outputShape());
  return bias ? graph::AddOp::create(e.builder, e.loc, x, bias).getResult() : nullptr;
}

/// 0.5 x (1 + erf(x / sqrt 2)).
LogicalResult biasGelu(Emitter &e) {
  mlir::Value x = biased(e);
  if (!x)
    return failure();
  mlir::Value error = graph::ErfOp::create(e.builder, e.loc, times(e, x, 0.7071067811865476));
  mlir::Value sum = graph::AddOp::create(e.builder, e.loc, error, splatLike(e.builder, e.loc, x, 1));
  e.define(0, graph::MulOp::create(e.builder, e.loc, times(e, x, 0.5), sum));
  return success();
}

LogicalResult fastGelu(Emitter &e) {
  mlir::Value x = biased(e);
  if (!x)
    return failure();
  e.define(0, geluByTanh(e.expr(x)).value());
  return success();
}

/// x sigmoid(alpha x).
LogicalResult quickGelu(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  mlir::Value gate = graph::SigmoidOp::create(e.builder, e.loc, times(e, x, e.node->real("alpha", 1.702)));
  e.define(0, graph::MulOp::create(e.builder, e.loc, x, gate));
  return success();
}

/// alpha op(A) op(B), where op swaps the last two dimensions.
LogicalResult fusedMatMul(Emitter &e) {
  if (e.node->integer("transBatchA", 0) || e.node->integer("transBatchB", 0))
    return e.fail("moves batch dimensions, which ztc does not emit");
  bool transA = e.node->integer("transA", 0), transB = e.node->integer("transB", 0), transposed = false;
  mlir::Value a = e.operand(0), b = a ? e.matrixOperand(1, transposed) : nullptr;
  if (!b)
    return failure();
  if (typeOf(a).getRank() < 2 || typeOf(b).getRank() < 2)
    return e.fail("multiplies a vector, which ztc does not emit");
  OpBuilder &builder = e.builder;
  if (typeOf(b).getRank() == 2 && (!transA || typeOf(a).getRank() == 2)) {
    int64_t k = shapeOf(a).back();
    mlir::Value rows = transA ? a : reshapeTo(builder, e.loc, a, {typeOf(a).getNumElements() / k, k});
    mlir::Value product = graph::MatmulOp::create(builder, e.loc, rows, b, transA, transB != transposed);
    e.define(0, reshapeTo(builder, e.loc, times(e, product, e.node->real("alpha", 1)), e.outputShape()));
    return success();
  }
  auto withLeading = [&](mlir::Value x) {
    SmallVector<int64_t> shape(e.outputShape().drop_back(2));
    shape.append(shapeOf(x).end() - 2, shapeOf(x).end());
    return broadcastTo(builder, e.loc, x, shape);
  };
  mlir::Value product =
      graph::MatmulOp::create(builder, e.loc, withLeading(a), withLeading(b), transA, transB != transposed);
  e.define(0, times(e, product, e.node->real("alpha", 1)));
  return success();
}

LogicalResult biasSoftmax(Emitter &e) {
  mlir::Value x = biased(e);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", 1), rank = typeOf(x).getRank();
  if (axis != -1 && axis != rank - 1)
    return e.fail("softmax over another dimension than the last");
  e.define(0, graph::SoftmaxOp::create(e.builder, e.loc, x));
  return success();
}

} // namespace

void addContribEmission(llvm::StringMap<EmitFunction> &t) {
  addContribAttentionEmission(t);
  addExpertEmission(t);
  t["com.microsoft::SkipSimplifiedLayerNormalization"] = skipRmsNorm;
  t["com.microsoft::SkipLayerNormalization"] = skipLayerNorm;
  t["com.microsoft::SimplifiedLayerNormalization"] = t.lookup("SimplifiedLayerNormalization");
  t["com.microsoft::Gelu"] = biasGelu;
  t["com.microsoft::BiasGelu"] = biasGelu;
  t["com.microsoft::FastGelu"] = fastGelu;
  t["com.microsoft::QuickGelu"] = quickGelu;
  t["com.microsoft::FusedMatMul"] = fusedMatMul;
  t["com.microsoft::TransposeMatMul"] = fusedMatMul;
  t["com.microsoft::BiasSoftmax"] = biasSoftmax;
}

} // namespace ztc::importer
