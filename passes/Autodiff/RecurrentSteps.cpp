#include "passes/Autodiff/RecurrentSteps.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/WideOps.h"

using namespace mlir;

namespace ztc {

using graph::Expr;

RecurrentStep stepOf(OpBuilder &builder, graph::LinearAttentionOp op, const RowOperands &row, Value state) {
  const graph::WideOps wide(builder);
  Expr kept(builder, op.getLoc(), state), q = kept.with(row.q), k = kept.with(row.k), v = kept.with(row.v);
  const int64_t H = kept.dim(0), K = kept.dim(1), V = kept.dim(2), group = q.dim(2) / H;
  q = graph::reshape(q, {H, group, K});
  k = graph::reshape(k, {H, 1, K});
  v = graph::reshape(v, {H, 1, V});
  if (const double scale = op.getScale().convertToDouble(); scale != 1.0)
    q = q * scale;
  if (row.decay) {
    Expr decay = kept.with(row.decay);
    kept = kept * graph::broadcastLike(graph::reshape(graph::exp(decay), {H, decay.dim(3), 1}), kept);
  }
  if (row.beta) {
    Expr beta = graph::reshape(kept.with(row.beta), {H, 1, 1});
    v = graph::broadcastLike(beta, v) * (v - graph::matmul(k, kept));
  }
  kept = kept + graph::matmul(k, v, /*transposeA=*/true);
  return {graph::reshape(graph::matmul(q, kept), {1, 1, H * group, V}).value(), kept.value()};
}

Expr rowOfWindow(const Expr &positions, int64_t rows) {
  Expr number = positions + double(rows);
  Expr real = graph::castTo(number, positions.builder().getF32Type());
  // A quotient of integers that is rounded correctly is below the next integer where the exact one is.
  Expr whole = graph::castTo(graph::truncate(real / double(rows)), positions.elementType());
  return number - whole * double(rows);
}

Value convolved(OpBuilder &builder, graph::CausalConvolutionOp op, Value window, Value position) {
  Expr all(builder, op.getLoc(), window), weight = graph::transpose(all.with(op.getWeight()), {1, 0});
  const int64_t k = weight.dim(0), C = weight.dim(1);
  auto type = RankedTensorType::get({k}, builder.getI32Type());
  Expr tap = all.with(graph::IotaOp::create(builder, op.getLoc(), type, 0));
  Expr place = graph::broadcast(all.with(position), {k}) + tap - double(k - 1);
  auto ordered = graph::EmbeddingOp::create(builder, op.getLoc(), all.type(), window, rowOfWindow(place, k).value());
  // The last of these rows is what the whole text has at this position, to the bit.
  Expr rows = graph::reshape(all.with(ordered), {1, k, C});
  auto filtered =
      graph::CausalFilterOp::create(builder, op.getLoc(), rows.value(), weight.value(), op.getBias(), Value());
  return graph::slice(rows.with(filtered), {0, k - 1, 0}, {1, 1, C}).value();
}

Value stateAfter(graph::LinearAttentionOp op, Value positions) {
  OpBuilder builder(op);
  auto upTo = [&](Value value) {
    Expr x(builder, op.getLoc(), value), position = x.with(positions);
    auto type = RankedTensorType::get({x.dim(0), x.dim(1), 1, 1}, builder.getI32Type());
    Expr place = x.with(graph::IotaOp::create(builder, op.getLoc(), type, 1));
    Expr isThere = place <= graph::broadcastLike(graph::reshape(position, {x.dim(0), 1, 1, 1}), place);
    return graph::select(graph::broadcastLike(isThere, x), x, graph::zeroLike(x)).value();
  };
  // The delta rule takes from the state what the key reads. Else either factor will do, and values are of each head.
  if (op.getDelta())
    op.getKMutable().assign(upTo(op.getK()));
  else
    op.getVMutable().assign(upTo(op.getV()));
  if (op.getDecay())
    op.getDecayMutable().assign(upTo(op.getDecay()));
  return op.getState();
}

Value windowAfter(OpBuilder &builder, Value x, int64_t rows, Value positions) {
  Expr all(builder, x.getLoc(), x), position = all.with(positions);
  const int64_t B = all.dim(0), S = all.dim(1), C = all.dim(2);
  auto type = RankedTensorType::get({B, rows}, builder.getI32Type());
  auto along = [&](int64_t dimension) { return all.with(graph::IotaOp::create(builder, x.getLoc(), type, dimension)); };
  position = graph::broadcast(graph::reshape(position, {B, 1}), {B, rows});
  Expr place = position - rowOfWindow(position - along(1), rows);
  Expr isThere = place >= graph::zeroLike(place);
  Expr index = graph::select(isThere, place, graph::zeroLike(place)) + along(0) * double(S);
  Expr found = all.with(graph::EmbeddingOp::create(builder, x.getLoc(), all.type().clone({B, rows, C}),
                                                   graph::reshape(all, {B * S, C}).value(), index.value()));
  isThere = graph::broadcast(graph::reshape(isThere, {B, rows, 1}), {B, rows, C});
  return graph::select(isThere, found, graph::zeroLike(found)).value();
}

} // namespace ztc
