// Attention of one head, row by row from the formulas in GraphAttention.td: what the interpreter's rules add up over
// all heads, and the verifier of kernels over few rows of one.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace ztc {

/// Rows of one head, from number `from` on: a row's elements follow one another, rows are `stride` elements apart.
struct HeadRows {
  const double *first = nullptr;
  int64_t stride = 0, from = 0;

  const double *operator[](int64_t row) const { return first + (row - from) * stride; }
};

/// A head of queries with the keys and values of its group.
struct AttentionHead {
  int64_t sequence = 0, width = 0;
  bool causal = false;
  int64_t window = 0;              ///< 0: none
  double scale = 1, softcap = 0;   ///< softcap: 0 where there is none
  const int64_t *starts = nullptr; ///< of each position's document; null where a row is one
  HeadRows q, k, v, dout;          ///< dout: of the gradient

  /// Whether query `i` sees key `j`.
  bool sees(int64_t i, int64_t j) const {
    return (!causal || j <= i) && (window == 0 || j > i - window) && (!starts || j >= starts[i]);
  }
  /// cap(x) = softcap * tanh(x / softcap) where there is one, else x; and the slope of that by x.
  double capped(double x) const { return softcap == 0 ? x : softcap * std::tanh(x / softcap); }
  double slopeAt(double x) const {
    const double bent = softcap == 0 ? 0 : std::tanh(x / softcap);
    return 1 - bent * bent;
  }
};

/// Of a query: p = softmax(cap(scale * q k^T)) over the keys, 0 where it sees none, and the logarithm of the softmax's
/// sum.
struct AttentionRow {
  std::vector<double> p;
  double lse = 0;
};
AttentionRow attentionRow(const AttentionHead &head, int64_t query);

/// sum_d dout[query][d] * out[d]
double attentionDelta(const AttentionHead &head, int64_t query, const double *out);

/// Of a query and a key that it sees: p = exp(cap(scale * q k) - lse), dp = dout v, ds = p * (dp - delta) * scale * the
/// cap's slope.
struct PairGradient {
  double p, dp, ds;
};
PairGradient pairGradient(const AttentionHead &head, int64_t query, int64_t key, double lse, double delta);

} // namespace ztc
