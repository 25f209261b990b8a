// The magnitudes of DoRA (Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation").
#pragma once
#include "compiler/Dialect/Graph/Expr.h"

namespace ztc::adapters {

/// A frozen weight and what its adapter adds: W + scale * B A.
struct ChangedWeight {
  graph::Expr weight; ///< (outputs, inputs), or transposed
  bool isOutputFirst;
  graph::Expr a, b; ///< (rank, inputs) and (outputs, rank)
  double scale;
};

/// m / |W + scale * B A|, (outputs), of the `magnitude` m: the norm is that of each output's row. It is a constant to
/// the gradient (section 4.3 of the paper). No matrix of the weight's size is made: the square of row o is
/// |w|^2 + b . (2 scale W A^T + scale^2 B (A A^T)), of row o of each. f32 in every precision.
graph::Expr magnitudeOverNorm(const ChangedWeight &changed, const graph::Expr &magnitude);

/// Each column c of `x` (rows, columns) times factors[c - begin], where begin <= c < begin + count(factors); others as
/// they are.
graph::Expr scaleColumns(const graph::Expr &x, const graph::Expr &factors, int64_t begin);

} // namespace ztc::adapters
