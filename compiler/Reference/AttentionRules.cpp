// Reference rules of the rotary embedding and attention, row by row from the formulas in GraphAttention.td.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc {
namespace {

void runRope(graph::RopeOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  int64_t B = x.shape[0], S = x.shape[1], H = x.shape[2], D = x.shape[3], half = D / 2;
  double sign = op.getInverse() ? -1 : 1;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t s = 0; s < S; ++s)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t d = 0; d < half; ++d) {
          int64_t first = ((b * S + s) * H + h) * D + d, second = first + half;
          double c = cos.reals[s * half + d], n = sign * sin.reals[s * half + d];
          results[0].reals[first] = x.reals[first] * c - x.reals[second] * n;
          results[0].reals[second] = x.reals[second] * c + x.reals[first] * n;
        }
}

/// Sizes, addresses and mask that attention and its gradient share.
struct AttentionShape {
  int64_t B, S, Hq, Hkv, D;
  bool causal;
  int64_t window;
  const Tensor *starts; ///< (B, S) of documents; null where a row is one

  AttentionShape(const Tensor &q, const Tensor &k, bool causal, int64_t window, const Tensor *starts)
      : B(q.shape[0]), S(q.shape[1]), Hq(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]), causal(causal), window(window),
        starts(starts) {}
  int64_t queryOffset(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * Hq + h) * D; }
  int64_t keyOffset(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * Hkv + h / (Hq / Hkv)) * D; }
  int64_t lseOffset(int64_t b, int64_t s, int64_t h) const { return (b * Hq + h) * S + s; }
  bool sees(int64_t b, int64_t i, int64_t j) const {
    return (!causal || j <= i) && (window == 0 || j > i - window) && (!starts || j >= starts->integers[b * S + i]);
  }
};

double dot(const double *a, const double *b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    sum += a[d] * b[d];
  return sum;
}

/// Calls `visit(b, i, h)` for every query row.
template <typename Visit> void forEachRow(const AttentionShape &shape, Visit &&visit) {
  for (int64_t b = 0; b < shape.B; ++b)
    for (int64_t h = 0; h < shape.Hq; ++h)
      for (int64_t i = 0; i < shape.S; ++i)
        visit(b, i, h);
}

void runAttention(graph::AttentionOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  AttentionShape shape(q, k, op.getCausal(), op.getWindow(), op.getDocumentStarts() ? operands[3] : nullptr);
  double scale = op.getScale().convertToDouble();
  forEachRow(shape, [&](int64_t b, int64_t i, int64_t h) {
    std::vector<double> scores(shape.S);
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t row = shape.queryOffset(b, i, h);
    for (int64_t j = 0; j < shape.S; ++j)
      if (shape.sees(b, i, j)) {
        scores[j] = scale * dot(&q.reals[row], &k.reals[shape.keyOffset(b, j, h)], shape.D);
        max = std::max(max, scores[j]);
      }
    for (int64_t j = 0; j < shape.S; ++j)
      if (shape.sees(b, i, j))
        sum += std::exp(scores[j] - max);
    for (int64_t j = 0; j < shape.S; ++j) {
      if (!shape.sees(b, i, j))
        continue;
      double p = interpreter.roundInside(std::exp(scores[j] - max) / sum, q.elementType);
      for (int64_t d = 0; d < shape.D; ++d)
        results[0].reals[row + d] += p * v.reals[shape.keyOffset(b, j, h) + d];
    }
    if (results.size() > 1)
      results[1].reals[shape.lseOffset(b, i, h)] = max + std::log(sum);
  });
}

void runAttentionGrad(graph::AttentionGradOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2], &out = *operands[3], &lse = *operands[4],
               &dout = *operands[5];
  Tensor &dq = results[0], &dk = results[1], &dv = results[2];
  AttentionShape shape(q, k, op.getCausal(), op.getWindow(), op.getDocumentStarts() ? operands[6] : nullptr);
  double scale = op.getScale().convertToDouble();
  forEachRow(shape, [&](int64_t b, int64_t i, int64_t h) {
    int64_t row = shape.queryOffset(b, i, h);
    double delta = dot(&dout.reals[row], &out.reals[row], shape.D);
    for (int64_t j = 0; j < shape.S; ++j) {
      if (!shape.sees(b, i, j))
        continue;
      int64_t key = shape.keyOffset(b, j, h);
      double p = std::exp(scale * dot(&q.reals[row], &k.reals[key], shape.D) - lse.reals[shape.lseOffset(b, i, h)]);
      double ds = p * (dot(&dout.reals[row], &v.reals[key], shape.D) - delta) * scale;
      p = interpreter.roundInside(p, q.elementType);
      ds = interpreter.roundInside(ds, q.elementType);
      for (int64_t d = 0; d < shape.D; ++d) {
        dq.reals[row + d] += ds * k.reals[key + d];
        dk.reals[key + d] += ds * q.reals[row + d];
        dv.reals[key + d] += p * dout.reals[row + d];
      }
    }
  });
}

} // namespace

void addAttentionRules(RuleTable &table) {
  table.add<graph::RopeOp>(runRope);
  table.add<graph::AttentionOp>(runAttention);
  table.add<graph::AttentionGradOp>(runAttentionGrad);
}

} // namespace ztc
