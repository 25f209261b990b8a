// Emission of LinearAttention and CausalConvWithState, in ONNX's domain and onnxruntime's.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/RecurrentHeads.h"
#include <cmath>

using namespace mlir;

namespace ztc::importer {
namespace {

/// What was before the first position; a null value where nothing was: no operand, an empty one, or zeros.
FailureOr<mlir::Value> pastOf(Emitter &e, unsigned input) {
  if (!e.node->hasInput(input) || llvm::is_contained(e.input(input).shape, 0))
    return mlir::Value();
  if (!e.isLive(input)) {
    TensorRef past = e.constant(input);
    if (!past)
      return failure();
    int64_t index = 0, count = past->count();
    while (index < count && past->real(index) == 0)
      ++index;
    if (index == count)
      return mlir::Value();
  }
  mlir::Value past = e.operand(input);
  if (!past)
    return failure();
  return past;
}

/// x (B, T, heads * D) as (B, T, all, D), each head repeated in place.
mlir::Value withHeads(Emitter &e, mlir::Value x, int64_t heads, int64_t all) {
  ArrayRef<int64_t> s = shapeOf(x);
  const int64_t B = s[0], T = s[1], D = s[2] / heads;
  if (heads == all)
    return reshapeTo(e.builder, e.loc, x, {B, T, heads, D});
  mlir::Value split = reshapeTo(e.builder, e.loc, x, {B, T, heads, 1, D});
  mlir::Value wide = broadcastTo(e.builder, e.loc, split, {B, T, heads, all / heads, D});
  auto type = RankedTensorType::get({B, T, all, D}, typeOf(x).getElementType());
  return graph::ReshapeOp::create(e.builder, e.loc, type, wide);
}

/// Decay or beta, (B, T, 1), (B, T, H) or (B, T, H * K), as (B, T, H, 1 or K); null after a diagnostic.
mlir::Value ofHeads(Emitter &e, unsigned input, int64_t heads) {
  mlir::Value x = e.operand(input);
  if (!x)
    return nullptr;
  ArrayRef<int64_t> s = shapeOf(x);
  if (s[2] == 1 && heads > 1)
    x = broadcastTo(e.builder, e.loc, x, {s[0], s[1], heads});
  return withHeads(e, x, heads, heads);
}

LogicalResult linearAttention(Emitter &e) {
  const Node &node = *e.node;
  const std::string rule = node.text("update_rule", "gated_delta");
  const bool isGated = StringRef(rule).starts_with("gated"), isDelta = StringRef(rule).ends_with("delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    return e.fail("update_rule '" + rule + "' is none of linear, gated, delta and gated_delta");
  if (node.integer("state_window", 0))
    return e.fail("keeps the states of several steps (state_window), which training does not have");
  for (auto [input, wanted, what] : {std::tuple(4u, isGated, "decay"), {5u, isDelta, "beta"}})
    if (wanted && !node.hasInput(input))
      return e.fail("update_rule '" + rule + "' needs the input " + what);
  std::string error;
  std::optional<RecurrentHeads> heads =
      RecurrentHeads::of(node, e.input(0).shape, e.input(1).shape, e.input(2).shape, error);
  if (!heads)
    return e.fail(error);
  mlir::Value q = e.operand(0), k = q ? e.operand(1) : nullptr, v = k ? e.operand(2) : nullptr, decay, beta;
  if (!v)
    return failure();
  FailureOr<mlir::Value> past = pastOf(e, 3);
  if (failed(past))
    return failure();
  decay = isGated ? ofHeads(e, 4, heads->states) : nullptr;
  beta = isDelta ? ofHeads(e, 5, heads->states) : nullptr;
  if ((isGated && !decay) || (isDelta && !beta))
    return failure();
  q = withHeads(e, q, heads->queries, std::max(heads->queries, heads->states));
  k = withHeads(e, k, heads->keys, heads->states);
  v = withHeads(e, v, heads->states, heads->states);
  const int64_t B = shapeOf(q)[0], T = shapeOf(q)[1], K = heads->keyWidth, V = heads->valueWidth;
  const double scale = node.real("scale", 0);
  auto type = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, typeOf(v).getElementType()); };
  auto op = graph::LinearAttentionOp::create(
      e.builder, e.loc, type({B, T, shapeOf(q)[2], V}), type({B, heads->states, K, V}), q, k, v, decay, beta, *past,
      mlir::Value(), e.builder.getF64FloatAttr(scale != 0 ? scale : 1 / std::sqrt(double(K))),
      e.builder.getI64IntegerAttr(graph::chunkOf(T)), isDelta ? e.builder.getUnitAttr() : UnitAttr());
  e.define(0, reshapeTo(e.builder, e.loc, op.getY(), e.outputShape()));
  if (e.hasOutput(1))
    e.define(1, op.getState());
  return success();
}

LogicalResult causalConvolution(Emitter &e) {
  const Node &node = *e.node;
  if (node.integer("ndim", 1) != 1 || node.integer("state_window", 0))
    return e.fail("has several dimensions, or keeps the states of several steps (state_window), which ztc does not "
                  "emit");
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return e.fail("activation '" + activation + "' is none of none, silu and swish");
  mlir::Value x = e.operand(0), weight = x ? e.operand(1) : nullptr, bias;
  if (!weight)
    return failure();
  FailureOr<mlir::Value> past = pastOf(e, 3);
  bias = node.hasInput(2) ? e.operand(2) : nullptr;
  if (failed(past) || (node.hasInput(2) && !bias))
    return failure();
  OpBuilder &b = e.builder;
  const int64_t B = shapeOf(x)[0], C = shapeOf(x)[1], T = shapeOf(x)[2], k = shapeOf(weight)[2];
  weight = reshapeTo(b, e.loc, weight, {C, k});
  mlir::Value rows = transposeTo(b, e.loc, x, {0, 2, 1}), before;
  if (*past)
    before = transposeTo(b, e.loc, *past, {0, 2, 1});
  mlir::Value y = graph::CausalConvolutionOp::create(b, e.loc, rows.getType(), rows, weight, bias, before, nullptr);
  if (activation != "none")
    y = (e.expr(y) * sigmoid(e.expr(y))).value();
  e.define(0, transposeTo(b, e.loc, y, {0, 2, 1}));
  if (!e.hasOutput(1))
    return success();
  if (k == 1) {
    auto nothing = RankedTensorType::get({B, C, 0}, typeOf(x).getElementType());
    e.define(1, graph::ConstantOp::create(b, e.loc, DenseElementsAttr::get(nothing, ArrayRef<mlir::Attribute>())));
    return success();
  }
  mlir::Value all = *past ? concatOf(b, e.loc, {*past, x}, 2) : padWith(b, e.loc, x, {0, 0, k - 1}, {0, 0, 0}, 0);
  e.define(1, sliceOf(b, e.loc, all, {0, 0, T}, {B, C, k - 1}));
  return success();
}

} // namespace

void addRecurrenceEmission(llvm::StringMap<EmitFunction> &t) {
  for (const char *domain : {"", "com.microsoft::"}) {
    t[(llvm::Twine(domain) + "LinearAttention").str()] = linearAttention;
    t[(llvm::Twine(domain) + "CausalConvWithState").str()] = causalConvolution;
  }
}

} // namespace ztc::importer
