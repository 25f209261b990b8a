#include "frontends/onnx/EmitRounding.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ztc::importer {

using graph::Expr;

Expr truncated(const Expr &x) {
  // From 2^23 on every f32 is whole; what is not converted is replaced before the conversion, which could overflow.
  Expr limit = constantLike(x, 8388608.0), zero = zeroLike(x);
  Expr isSmall = (x < limit) & (x > -limit);
  Expr small = select(isSmall, x, zero);
  return select(isSmall, castTo(castTo(small, x.builder().getI32Type()), x.elementType()), x);
}

Expr floored(const Expr &x) {
  Expr whole = truncated(x);
  return select(whole > x, whole - 1.0, whole);
}

Expr roundedToEven(const Expr &x) {
  Expr low = floored(x), rest = x - low, half = constantLike(x, 0.5);
  Expr isOdd = low - 2.0 * floored(low * 0.5) == constantLike(x, 1.0);
  Expr atTie = select(isOdd, low + 1.0, low);
  return select(rest > half, low + 1.0, select(rest == half, atTie, low));
}

} // namespace ztc::importer
