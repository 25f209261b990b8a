// Functions that several operators apply, defined beside the activations.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"

namespace ztc::importer {

/// Element by element.
graph::Expr larger(const graph::Expr &a, const graph::Expr &b);
graph::Expr smaller(const graph::Expr &a, const graph::Expr &b);
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
graph::Expr geluByTanh(const graph::Expr &x);

} // namespace ztc::importer
