// Reference rules of linear attention and causal convolutions, position by position from the formulas in
// GraphRecurrence.td.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Reference/Interpreter.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// The operand that `value` is among the tensors of the op's operands; null where it is absent.
const Tensor *operandOf(Operation *op, Operands operands, Value value) {
  for (auto [operand, tensor] : llvm::zip_equal(op->getOperands(), operands))
    if (value && operand == value)
      return tensor;
  return nullptr;
}

/// One head's way through a row.
struct StateRows {
  int64_t K, V;
  std::vector<double> state; ///< (K, V)

  void decay(const double *logarithms, bool ofEachRow) {
    for (int64_t i = 0; i < K; ++i)
      for (int64_t j = 0; j < V; ++j)
        state[i * V + j] *= std::exp(logarithms[ofEachRow ? i : 0]);
  }

  /// What the state gives for a row k or q of K elements.
  double read(const double *row, int64_t column) const {
    double sum = 0;
    for (int64_t i = 0; i < K; ++i)
      sum += row[i] * state[i * V + column];
    return sum;
  }

  void add(const double *k, const double *v, const double *beta) {
    for (int64_t j = 0; j < V; ++j) {
      const double change = beta ? *beta * (v[j] - read(k, j)) : v[j];
      for (int64_t i = 0; i < K; ++i)
        state[i * V + j] += k[i] * change;
    }
  }
};

void runLinearAttention(graph::LinearAttentionOp op, Operands operands, Results results) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  const Tensor *decay = operandOf(op, operands, op.getDecay()), *beta = operandOf(op, operands, op.getBeta()),
               *past = operandOf(op, operands, op.getPast()), *starts = operandOf(op, operands, op.getDocumentStarts());
  const int64_t B = q.shape[0], T = q.shape[1], Hq = q.shape[2], K = q.shape[3], H = v.shape[2], V = v.shape[3],
                group = Hq / H;
  // A number that queries are multiplied by, in the type in which that is done.
  const double scale = ztc::roundTo(op.getScale().convertToDouble(), graph::computeType(q.elementType));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) {
      StateRows rows{K, V, std::vector<double>(size_t(K * V), 0.0)};
      if (past)
        std::copy_n(&past->reals[(b * H + h) * K * V], K * V, rows.state.begin());
      for (int64_t t = 0; t < T; ++t) {
        const int64_t place = (b * T + t) * H + h;
        if (starts && starts->integers[b * T + t] == t)
          std::fill(rows.state.begin(), rows.state.end(), 0.0);
        if (decay)
          rows.decay(&decay->reals[place * decay->shape[3]], decay->shape[3] > 1);
        rows.add(&k.reals[place * K], &v.reals[place * V], beta ? &beta->reals[place] : nullptr);
        for (int64_t g = 0; g < group; ++g) {
          const int64_t query = (b * T + t) * Hq + h * group + g;
          for (int64_t j = 0; j < V; ++j)
            results[0].reals[query * V + j] = scale * rows.read(&q.reals[query * K], j);
        }
      }
      llvm::copy(rows.state, &results[1].reals[(b * H + h) * K * V]);
    }
}

void runCausalConvolution(graph::CausalConvolutionOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &weight = *operands[1];
  const Tensor *bias = operandOf(op, operands, op.getBias()), *past = operandOf(op, operands, op.getPast()),
               *starts = operandOf(op, operands, op.getDocumentStarts());
  const int64_t B = x.shape[0], T = x.shape[1], C = x.shape[2], k = weight.shape[1];
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t c = 0; c < C; ++c) {
        double sum = bias ? bias->reals[c] : 0;
        for (int64_t j = 0; j < k; ++j) {
          const int64_t from = t - (k - 1) + j, first = starts ? starts->integers[b * T + t] : 0;
          if (from >= first)
            sum += weight.reals[c * k + j] * x.reals[(b * T + from) * C + c];
          else if (past)
            sum += weight.reals[c * k + j] * past->reals[(b * (k - 1) + k - 1 + from) * C + c];
        }
        results[0].reals[(b * T + t) * C + c] = sum;
      }
}

} // namespace

void addRecurrenceRules(RuleTable &table) {
  table.add<graph::LinearAttentionOp>(runLinearAttention);
  table.add<graph::CausalConvolutionOp>(runCausalConvolution);
}

} // namespace ztc
