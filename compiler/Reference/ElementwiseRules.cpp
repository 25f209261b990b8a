// Reference rules of the elementwise ops.
#include "compiler/Dialect/Graph/Comparison.h"
#include "compiler/Reference/Interpreter.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/StochasticRounding.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// A result of the operands' shape: elementwise ops also run on values whose size the type leaves open.
Tensor like(const Tensor &operand, Type elementType) {
  return Tensor(operand.shape, elementType);
}

template <typename OpTy> void addUnary(RuleTable &table, double (*compute)(double)) {
  table.add<OpTy>([compute](OpTy op, Operands operands, Results results) -> LogicalResult {
    const Tensor &x = *operands[0];
    results[0] = like(x, x.elementType);
    if (!x.isReal())
      return op.emitOpError("has no reference rule for integers");
    for (int64_t i = 0; i < x.count(); ++i)
      results[0].reals[i] = compute(x.reals[i]);
    return success();
  });
}

template <typename OpTy>
void addBinary(RuleTable &table, double (*real)(double, double), int64_t (*integer)(int64_t, int64_t)) {
  table.add<OpTy>([=](OpTy op, Operands operands, Results results) -> LogicalResult {
    const Tensor &a = *operands[0], &b = *operands[1];
    results[0] = like(a, a.elementType);
    for (int64_t i = 0; i < a.count(); ++i) {
      if (a.isReal()) {
        results[0].reals[i] = real(a.reals[i], b.reals[i]);
        continue;
      }
      results[0].integers[i] = integer(a.integers[i], b.integers[i]);
    }
    return success();
  });
}

void runCompare(graph::CompareOp op, Operands operands, Results results) {
  const Tensor &a = *operands[0], &b = *operands[1];
  results[0] = like(a, cast<ShapedType>(op.getY().getType()).getElementType());
  for (int64_t i = 0; i < a.count(); ++i)
    results[0].integers[i] = a.isReal() ? graph::holds(op.getPredicate(), a.reals[i], b.reals[i])
                                        : graph::holds(op.getPredicate(), a.integers[i], b.integers[i]);
}

void runSelect(graph::SelectOp, Operands operands, Results results) {
  const Tensor &condition = *operands[0];
  results[0] = *operands[2];
  for (int64_t i = 0; i < condition.count(); ++i) {
    if (!condition.integers[i])
      continue;
    if (results[0].isReal())
      results[0].reals[i] = operands[1]->reals[i];
    else
      results[0].integers[i] = operands[1]->integers[i];
  }
}

double roundTo(graph::Rounding mode, double value) {
  switch (mode) {
  case graph::Rounding::Floor:
    return std::floor(value);
  case graph::Rounding::Ceil:
    return std::ceil(value);
  case graph::Rounding::Even:
    return std::nearbyint(value);
  case graph::Rounding::Truncate:
    return std::trunc(value);
  }
  llvm_unreachable("every mode is above");
}

void runLogic(graph::LogicOp op, Operands operands, Results results) {
  const Tensor &a = *operands[0], &b = *operands[1];
  results[0] = like(a, a.elementType);
  for (int64_t i = 0; i < a.count(); ++i)
    results[0].integers[i] = graph::combineBits(op.getFunction(), a.integers[i], b.integers[i]);
}

void runCast(graph::CastOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0];
  results[0] = like(x, cast<ShapedType>(op.getY().getType()).getElementType());
  Tensor &y = results[0];
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.isReal() && y.isReal())
      y.reals[i] = x.reals[i];
    else if (x.isReal())
      y.integers[i] = y.elementType.isInteger(1) ? x.reals[i] != 0 : static_cast<int64_t>(std::trunc(x.reals[i]));
    else if (y.isReal())
      y.reals[i] = static_cast<double>(x.integers[i]);
    else
      y.integers[i] = y.elementType.isInteger(1)    ? x.integers[i] != 0
                      : y.elementType.isInteger(32) ? static_cast<int32_t>(x.integers[i])
                                                    : x.integers[i];
  }
}

// The ops below work on bits: in Precision::F64 too.

void runJoinMaster(graph::JoinMasterOp op, Operands operands, Results results) {
  const Tensor &parameter = *operands[0], &remainder = *operands[1];
  results[0] = like(parameter, getElementTypeOrSelf(op.getMaster().getType()));
  for (int64_t i = 0; i < parameter.count(); ++i)
    results[0].reals[i] =
        joinMaster(toBf16(static_cast<float>(parameter.reals[i])), static_cast<int16_t>(remainder.integers[i]));
}

void runSplitMaster(graph::SplitMasterOp op, Operands operands, Results results) {
  const Tensor &master = *operands[0];
  results[0] = like(master, getElementTypeOrSelf(op.getParameter().getType()));
  results[1] = like(master, getElementTypeOrSelf(op.getRemainder().getType()));
  for (int64_t i = 0; i < master.count(); ++i) {
    SplitMaster split = splitMaster(static_cast<float>(master.reals[i]));
    results[0].reals[i] = fromBf16(split.parameter);
    results[1].integers[i] = split.remainder;
  }
}

void runStochasticRound(graph::StochasticRoundOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &index = *operands[1], &seed = *operands[2], &step = *operands[3];
  results[0] = like(x, getElementTypeOrSelf(op.getY().getType()));
  for (int64_t i = 0; i < x.count(); ++i) {
    uint32_t key = roundingKey(static_cast<float>(seed.reals[i]), static_cast<float>(step.reals[i]),
                               static_cast<uint32_t>(op.getStream()));
    results[0].reals[i] = fromBf16(roundStochastically(static_cast<float>(x.reals[i]),
                                                       roundingBits(key, static_cast<uint64_t>(index.integers[i]))));
  }
}

void runRandomBits(graph::RandomBitsOp op, Operands operands, Results results) {
  const Tensor &row = *operands[0], &column = *operands[1], &first = *operands[2];
  const Tensor &seed = *operands[3], &step = *operands[4];
  results[0] = like(row, getElementTypeOrSelf(op.getY().getType()));
  for (int64_t i = 0; i < row.count(); ++i) {
    const uint32_t key = roundingKey(static_cast<float>(seed.reals[i]), static_cast<float>(step.reals[i]),
                                     static_cast<uint32_t>(op.getStream()));
    const int64_t place = (first.integers[i] + row.integers[i]) * int64_t(op.getColumns()) + column.integers[i];
    results[0].integers[i] = maskBits(key, static_cast<uint64_t>(place));
  }
}

} // namespace

void addElementwiseRules(RuleTable &table) {
  using Int = int64_t;
  addBinary<graph::AddOp>(table, [](double a, double b) { return a + b; }, [](Int a, Int b) { return a + b; });
  addBinary<graph::SubOp>(table, [](double a, double b) { return a - b; }, [](Int a, Int b) { return a - b; });
  addBinary<graph::MulOp>(table, [](double a, double b) { return a * b; }, [](Int a, Int b) { return a * b; });
  addBinary<graph::DivOp>(
      table, [](double a, double b) { return a / b; }, [](Int a, Int b) { return b == 0    ? 0
                                                                                 : b == -1 ? -a
                                                                                           : a / b; });
  addBinary<graph::RemainderOp>(
      table, [](double a, double b) { return std::fmod(a, b); },
      [](Int a, Int b) { return b == 0    ? a
                                : b == -1 ? 0
                                          : a % b; });
  addBinary<graph::TensorPowerOp>(
      table, [](double a, double b) { return std::pow(a, b); },
      [](Int a, Int b) { return static_cast<Int>(std::pow(a, b)); });
  addBinary<graph::MaximumOp>(
      table, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); },
      [](Int a, Int b) { return std::max(a, b); });
  addBinary<graph::MinimumOp>(
      table, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); },
      [](Int a, Int b) { return std::min(a, b); });

  addUnary<graph::NegOp>(table, [](double x) { return -x; });
  addUnary<graph::AbsOp>(table, [](double x) { return std::fabs(x); });
  addUnary<graph::ExpOp>(table, [](double x) { return std::exp(x); });
  addUnary<graph::LogOp>(table, [](double x) { return std::log(x); });
  addUnary<graph::SqrtOp>(table, [](double x) { return std::sqrt(x); });
  addUnary<graph::RsqrtOp>(table, [](double x) { return 1.0 / std::sqrt(x); });
  addUnary<graph::ReciprocalOp>(table, [](double x) { return 1.0 / x; });
  addUnary<graph::SigmoidOp>(table, [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
  addUnary<graph::TanhOp>(table, [](double x) { return std::tanh(x); });
  addUnary<graph::ErfOp>(table, [](double x) { return std::erf(x); });
  addUnary<graph::SinOp>(table, [](double x) { return std::sin(x); });
  addUnary<graph::CosOp>(table, [](double x) { return std::cos(x); });

  addUnary<graph::AtanOp>(table, [](double x) { return std::atan(x); });
  addUnary<graph::Expm1Op>(table, [](double x) { return std::expm1(x); });
  addUnary<graph::Log1pOp>(table, [](double x) { return std::log1p(x); });

  table.add<graph::RoundOp>([](graph::RoundOp op, Operands operands, Results results) {
    const Tensor &x = *operands[0];
    results[0] = like(x, x.elementType);
    for (int64_t i = 0; i < x.count(); ++i)
      results[0].reals[i] = roundTo(op.getMode(), x.reals[i]);
  });
  table.add<graph::PowerOp>([](graph::PowerOp op, Operands operands, Results results) {
    const Tensor &x = *operands[0];
    results[0] = like(x, x.elementType);
    for (int64_t i = 0; i < x.count(); ++i)
      results[0].reals[i] = std::pow(x.reals[i], op.getExponent().convertToDouble());
  });
  table.add<graph::CompareOp>(runCompare);
  table.add<graph::SelectOp>(runSelect);
  table.add<graph::LogicOp>(runLogic);
  table.add<graph::CastOp>(runCast);
  table.add<graph::JoinMasterOp>(runJoinMaster);
  table.add<graph::SplitMasterOp>(runSplitMaster);
  table.add<graph::StochasticRoundOp>(runStochasticRound);
  table.add<graph::RandomBitsOp>(runRandomBits);
  table.add<graph::DropoutOp>([](graph::DropoutOp, Operands operands, Results results) { results[0] = *operands[0]; });
}

} // namespace ztc
