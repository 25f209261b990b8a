// Reference rules of the rotary embedding and attention, row by row from the formulas in GraphAttention.td.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/AttentionRows.h"
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

/// Sizes and addresses that attention and its gradient share.
struct AttentionShape {
  int64_t B, S, Hq, Hkv, D;
  AttentionHead mask;
  const Tensor *starts; ///< (B, S) of documents; null where a row is one

  template <typename OpTy>
  AttentionShape(OpTy op, const Tensor &q, const Tensor &k, const Tensor *starts)
      : B(q.shape[0]), S(q.shape[1]), Hq(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]), starts(starts) {
    mask.sequence = S, mask.width = D;
    mask.causal = op.getCausal(), mask.window = op.getWindow(), mask.scale = op.getScale().convertToDouble();
    mask.softcap = op.getSoftcap().convertToDouble();
  }
  int64_t queryOffset(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * Hq + h) * D; }
  int64_t keyOffset(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * Hkv + h / (Hq / Hkv)) * D; }
  int64_t lseOffset(int64_t b, int64_t s, int64_t h) const { return (b * Hq + h) * S + s; }

  AttentionHead head(int64_t b, int64_t h, const Tensor &q, const Tensor &k, const Tensor &v,
                     const Tensor *dout = nullptr) const {
    AttentionHead head = mask;
    head.starts = starts ? &starts->integers[b * S] : nullptr;
    head.q = {&q.reals[queryOffset(b, 0, h)], Hq * D};
    head.k = {&k.reals[keyOffset(b, 0, h)], Hkv * D};
    head.v = {&v.reals[keyOffset(b, 0, h)], Hkv * D};
    if (dout)
      head.dout = {&dout->reals[queryOffset(b, 0, h)], Hq * D};
    return head;
  }
};

double dot(const double *a, const double *b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d)
    sum += a[d] * b[d];
  return sum;
}

/// Calls `visit(b, h)` for every head of queries.
template <typename Visit> void forEachHead(const AttentionShape &shape, Visit &&visit) {
  for (int64_t b = 0; b < shape.B; ++b)
    for (int64_t h = 0; h < shape.Hq; ++h)
      visit(b, h);
}

void runAttention(graph::AttentionOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  const AttentionShape shape(op, q, k, op.getDocumentStarts() ? operands[3] : nullptr);
  forEachHead(shape, [&](int64_t b, int64_t h) {
    const AttentionHead head = shape.head(b, h, q, k, v);
    for (int64_t i = 0; i < shape.S; ++i) {
      const AttentionRow row = attentionRow(head, i);
      double *out = &results[0].reals[shape.queryOffset(b, i, h)];
      for (int64_t j = 0; j < shape.S; ++j) {
        if (!head.sees(i, j))
          continue;
        const double p = interpreter.roundInside(row.p[j], q.elementType);
        for (int64_t d = 0; d < shape.D; ++d)
          out[d] += p * head.v[j][d];
      }
      if (results.size() > 1)
        results[1].reals[shape.lseOffset(b, i, h)] = row.lse;
    }
  });
}

void runAttentionGrad(graph::AttentionGradOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2], &out = *operands[3], &lse = *operands[4],
               &dout = *operands[5];
  Tensor &dq = results[0], &dk = results[1], &dv = results[2];
  const AttentionShape shape(op, q, k, op.getDocumentStarts() ? operands[6] : nullptr);
  forEachHead(shape, [&](int64_t b, int64_t h) {
    const AttentionHead head = shape.head(b, h, q, k, v, &dout);
    for (int64_t i = 0; i < shape.S; ++i) {
      const int64_t row = shape.queryOffset(b, i, h);
      const double delta = attentionDelta(head, i, &out.reals[row]);
      for (int64_t j = 0; j < shape.S; ++j) {
        if (!head.sees(i, j))
          continue;
        const int64_t key = shape.keyOffset(b, j, h);
        PairGradient pair = pairGradient(head, i, j, lse.reals[shape.lseOffset(b, i, h)], delta);
        pair.p = interpreter.roundInside(pair.p, q.elementType);
        pair.ds = interpreter.roundInside(pair.ds, q.elementType);
        for (int64_t d = 0; d < shape.D; ++d) {
          dq.reals[row + d] += pair.ds * k.reals[key + d];
          dk.reals[key + d] += pair.ds * q.reals[row + d];
          dv.reals[key + d] += pair.p * dout.reals[row + d];
        }
      }
    }
  });
}

} // namespace

AttentionRow attentionRow(const AttentionHead &head, int64_t query) {
  AttentionRow row;
  row.p.assign(size_t(head.sequence), 0);
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < head.sequence; ++j)
    if (head.sees(query, j)) {
      row.p[j] = head.capped(head.scale * dot(head.q[query], head.k[j], head.width));
      max = std::max(max, row.p[j]);
    }
  for (int64_t j = 0; j < head.sequence; ++j)
    if (head.sees(query, j)) {
      row.p[j] = std::exp(row.p[j] - max);
      sum += row.p[j];
    }
  for (double &p : row.p)
    p /= sum;
  row.lse = max + std::log(sum);
  return row;
}

double attentionDelta(const AttentionHead &head, int64_t query, const double *out) {
  return dot(head.dout[query], out, head.width);
}

PairGradient pairGradient(const AttentionHead &head, int64_t query, int64_t key, double lse, double delta) {
  const double score = head.scale * dot(head.q[query], head.k[key], head.width);
  const double p = std::exp(head.capped(score) - lse);
  const double dp = dot(head.dout[query], head.v[key], head.width);
  return {p, dp, p * (dp - delta) * head.scale * head.slopeAt(score)};
}

void addAttentionRules(RuleTable &table) {
  table.add<graph::RopeOp>(runRope);
  table.add<graph::AttentionOp>(runAttention);
  table.add<graph::AttentionGradOp>(runAttentionGrad);
}

} // namespace ztc
