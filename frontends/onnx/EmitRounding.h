// Rounding to whole numbers, in ops that exist: conversions to integers and back.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"

namespace ztc::importer {

/// Toward zero, down, to the nearest (ties to even). Of NaN and infinities, themselves. Derivatives are zero.
graph::Expr truncated(const graph::Expr &x);
graph::Expr floored(const graph::Expr &x);
graph::Expr roundedToEven(const graph::Expr &x);

} // namespace ztc::importer
