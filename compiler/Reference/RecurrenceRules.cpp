// Reference rules of linear attention, causal convolutions, states from chunk to chunk and selective scans, from the
// formulas in GraphRecurrence.td and GraphScan.td.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Scan.h"
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

/// For each position that tap j of a filter reads: its own index among positions, and that which is read.
template <typename Body> void forFilterReads(const Tensor &x, int64_t k, const Tensor *starts, Body &&body) {
  const int64_t T = x.shape[1];
  for (int64_t row = 0; row < x.shape[0] * T; ++row)
    for (int64_t j = 0; j < k; ++j) {
      const int64_t from = row % T - (k - 1) + j;
      if (j == k - 1 || from >= (starts ? starts->integers[row] : 0)) // a position is always of its own document
        body(j, row, row - row % T + from);
    }
}

void runCausalFilter(graph::CausalFilterOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &taps = *operands[1];
  const Tensor *bias = operandOf(op, operands, op.getBias()), *starts = operandOf(op, operands, op.getDocumentStarts());
  const int64_t C = x.shape[2];
  std::vector<double> &y = results[0].reals;
  forFilterReads(x, taps.shape[0], starts, [&](int64_t j, int64_t to, int64_t from) {
    for (int64_t c = 0; c < C; ++c)
      y[to * C + c] += taps.reals[j * C + c] * x.reals[from * C + c];
  });
  for (size_t i = 0; bias && i < y.size(); ++i)
    y[i] += bias->reals[i % size_t(C)];
}

void runCausalFilterGrad(graph::CausalFilterGradOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &taps = *operands[1], &dy = *operands[2];
  const int64_t C = x.shape[2], k = taps.shape[0];
  forFilterReads(x, k, operandOf(op, operands, op.getDocumentStarts()), [&](int64_t j, int64_t to, int64_t from) {
    for (int64_t c = 0; c < C; ++c) {
      results[0].reals[from * C + c] += taps.reals[j * C + c] * dy.reals[to * C + c];
      results[1 + j].reals[c] += dy.reals[to * C + c] * x.reals[from * C + c];
    }
  });
  for (size_t i = 0; op.getBias() && i < dy.reals.size(); ++i)
    results[1 + k].reals[i % size_t(C)] += dy.reals[i];
}

void runStatePassing(graph::StatePassingOp op, Operands operands, Results results) {
  const Tensor *to = operandOf(op, operands, op.getTo()), *from = operandOf(op, operands, op.getFrom()),
               *update = operandOf(op, operands, op.getUpdate()), *plus = operandOf(op, operands, op.getPlus()),
               *decay = operandOf(op, operands, op.getDecay()), *past = operandOf(op, operands, op.getPast());
  Tensor &before = results[0], &last = results[1];
  const int64_t R = last.shape[0], K = last.shape[1], V = last.shape[2], C = to ? to->shape[1] : 0;
  const int64_t N = op.getChunks();
  for (int64_t r = 0; r < R; ++r) {
    std::vector<double> state(size_t(K * V), 0.0);
    if (past)
      std::copy_n(&past->reals[r * K * V], K * V, state.begin());
    for (int64_t step = 0; step < N; ++step) {
      const int64_t row = (op.getReverse() ? N - 1 - step : step) * R + r;
      llvm::copy(state, &before.reals[row * K * V]);
      for (int64_t i = 0; i < K * V; ++i) {
        if (decay) {
          const int64_t keys = decay->shape[1], parts = decay->shape[2];
          state[i] *= decay->reals[(row * keys + (keys > 1 ? i / V : 0)) * parts + i % V / (V / parts)];
        }
        if (plus)
          state[i] += plus->reals[row * K * V + i];
      }
      for (int64_t c = 0; c < C; ++c)
        for (int64_t v = 0; v < V; ++v) {
          double &x = results[2].reals[(row * C + c) * V + v];
          x = update->reals[(row * C + c) * V + v];
          for (int64_t k = 0; k < K; ++k)
            x += from->reals[(row * C + c) * K + k] * before.reals[(row * K + k) * V + v];
          for (int64_t k = 0; k < K; ++k)
            state[k * V + v] += to->reals[(row * C + c) * K + k] * x;
        }
    }
    llvm::copy(state, &last.reals[r * K * V]);
  }
}

void runUnitLowerInverse(graph::UnitLowerInverseOp, Operands operands, Results results) {
  const Tensor &a = *operands[0];
  const int64_t n = a.shape[1];
  for (int64_t r = 0; r < a.shape[0]; ++r) {
    const double *from = &a.reals[r * n * n];
    double *y = &results[0].reals[r * n * n];
    for (int64_t i = 0; i < n; ++i) {
      y[i * n + i] = 1;
      for (int64_t j = 0; j < i; ++j)
        for (int64_t c = 0; c <= j; ++c)
          y[i * n + c] -= from[i * n + j] * y[j * n + c];
    }
  }
}

/// One channel's way through a row of a selective scan.
struct ChannelScan {
  const Tensor &v, &delta, &rate, &b, &c;
  const Tensor *starts;
  int64_t T, D, N, row, channel;

  template <typename OpTy>
  ChannelScan(OpTy op, Operands operands, int64_t row, int64_t channel)
      : v(*operands[0]), delta(*operands[1]), rate(*operands[2]), b(*operands[3]), c(*operands[4]),
        starts(operandOf(op, operands, op.getDocumentStarts())), T(v.shape[1]), D(v.shape[2]), N(rate.shape[0]),
        row(row), channel(channel) {}

  int64_t own(int64_t t) const { return (row * T + t) * D + channel; }
  int64_t shared(int64_t t, int64_t n) const { return (row * T + t) * N + n; }
  /// Where number n of the channel's state lies among (B, chunks, N, D).
  int64_t kept(int64_t chunks, int64_t chunk, int64_t n) const {
    return ((row * chunks + chunk) * N + n) * D + channel;
  }
  double rateOf(int64_t n) const { return rate.reals[n * D + channel]; }
  double decay(int64_t t, int64_t n) const {
    const bool isStart = starts && starts->integers[row * T + t] == t;
    return isStart ? 0 : std::exp(delta.reals[own(t)] * rateOf(n));
  }
  void advance(int64_t t, std::vector<double> &state) const {
    for (int64_t n = 0; n < N; ++n)
      state[n] = decay(t, n) * state[n] + v.reals[own(t)] * b.reals[shared(t, n)];
  }
};

template <typename Body> void forChannels(const Tensor &v, Body body) {
  for (int64_t row = 0; row < v.shape[0]; ++row)
    for (int64_t channel = 0; channel < v.shape[2]; ++channel)
      body(row, channel);
}

void runSelectiveScan(graph::SelectiveScanOp op, Operands operands, Results results) {
  forChannels(*operands[0], [&](int64_t row, int64_t channel) {
    const ChannelScan scan(op, operands, row, channel);
    std::vector<double> state(size_t(scan.N), 0.0);
    for (int64_t t = 0; t < scan.T; ++t) {
      if (t % int64_t(op.getChunk()) == 0)
        for (int64_t n = 0; n < scan.N; ++n)
          results[1].reals[scan.kept(results[1].shape[1], t / int64_t(op.getChunk()), n)] = state[n];
      scan.advance(t, state);
      double &y = results[0].reals[scan.own(t)];
      for (int64_t n = 0; n < scan.N; ++n)
        y += scan.c.reals[scan.shared(t, n)] * state[n];
    }
  });
}

void runSelectiveScanGrad(graph::SelectiveScanGradOp op, Operands operands, Results results) {
  const int64_t chunk = op.getChunk();
  const Tensor &states = *operands[5], &dy = *operands[6];
  forChannels(*operands[0], [&](int64_t row, int64_t channel) {
    const ChannelScan scan(op, operands, row, channel);
    const auto [T, N] = std::pair(scan.T, scan.N);
    // Before each position, from the state that was kept before its chunk.
    std::vector<std::vector<double>> before(size_t(T + 1), std::vector<double>(size_t(N), 0.0));
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t n = 0; t % chunk == 0 && n < N; ++n)
        before[t][n] = states.reals[scan.kept(states.shape[1], t / chunk, n)];
      before[t + 1] = before[t];
      scan.advance(t, before[t + 1]);
    }
    std::vector<double> g(size_t(N), 0.0);
    const int64_t part = channel / int64_t(kScanGroup) * operands[0]->shape[0] * T * N;
    for (int64_t t = T - 1; t >= 0; --t) {
      std::vector<double> after = before[t];
      scan.advance(t, after);
      const int64_t own = scan.own(t);
      for (int64_t n = 0; n < N; ++n) {
        const int64_t shared = scan.shared(t, n);
        g[n] += scan.c.reals[shared] * dy.reals[own];
        results[0].reals[own] += scan.b.reals[shared] * g[n];
        results[3].reals[part + shared] += scan.v.reals[own] * g[n];
        results[4].reals[part + shared] += dy.reals[own] * after[n];
        g[n] *= scan.decay(t, n);
        const double exponent = g[n] * before[t][n];
        results[1].reals[own] += scan.rateOf(n) * exponent;
        results[2].reals[(row * N + n) * scan.D + channel] += scan.delta.reals[own] * exponent;
      }
    }
  });
}

} // namespace

void addRecurrenceRules(RuleTable &table) {
  table.add<graph::LinearAttentionOp>(runLinearAttention);
  table.add<graph::CausalConvolutionOp>(runCausalConvolution);
  table.add<graph::CausalFilterOp>(runCausalFilter);
  table.add<graph::CausalFilterGradOp>(runCausalFilterGrad);
  table.add<graph::StatePassingOp>(runStatePassing);
  table.add<graph::UnitLowerInverseOp>(runUnitLowerInverse);
  table.add<graph::SelectiveScanOp>(runSelectiveScan);
  table.add<graph::SelectiveScanGradOp>(runSelectiveScanGrad);
}

} // namespace ztc
