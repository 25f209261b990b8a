// x / sqrt(mean(x^2) + epsilon) * weight, in the spellings of the exporters, becomes rms_norm.
#include "frontends/onnx/Raise.h"

using namespace mlir;

namespace ztc::importer {
namespace {

/// `value` is the square of `x`.
bool isSquareOf(Value value, Value x) {
  if (auto power = value.getDefiningOp<graph::PowerOp>())
    return power.getX() == x && power.getExponent().convertToDouble() == 2;
  auto product = value.getDefiningOp<graph::MulOp>();
  return product && product.getA() == x && product.getB() == x;
}

/// `value` is the mean of x^2 over the last dimension, which keeps its place.
bool isMeanSquare(Value value, Value x) {
  double width = double(shapeOf(x).back());
  Value sum;
  if (auto quotient = value.getDefiningOp<graph::DivOp>(); quotient && splatValue(quotient.getB()) == width)
    sum = quotient.getA();
  else if (auto product = value.getDefiningOp<graph::MulOp>(); product && splatValue(product.getB()) == 1 / width)
    sum = product.getA();
  auto reduction = sum ? sum.getDefiningOp<graph::ReduceSumOp>() : nullptr;
  return reduction && reduction.getAxes() == ArrayRef<int64_t>{typeOf(x).getRank() - 1} &&
         isSquareOf(reduction.getX(), x);
}

/// The epsilon where `value` is mean(x^2) + epsilon.
std::optional<double> shiftedMeanSquare(Value value, Value x) {
  auto sum = value.getDefiningOp<graph::AddOp>();
  std::optional<double> epsilon;
  if (sum)
    eitherOrder(sum, [&](Value mean, Value shift) {
      std::optional<double> number = splatValue(shift);
      if (!number || *number <= 0 || !isMeanSquare(mean, x))
        return false;
      epsilon = number;
      return true;
    });
  return epsilon;
}

/// The epsilon where `value` is 1 / sqrt(mean(x^2) + epsilon), (..., 1).
std::optional<double> inverseRoot(Value value, Value x) {
  Value root;
  if (auto reciprocal = value.getDefiningOp<graph::ReciprocalOp>())
    root = reciprocal.getX();
  else if (auto quotient = value.getDefiningOp<graph::DivOp>(); quotient && splatValue(quotient.getA()) == 1.0)
    root = quotient.getB();
  else if (auto rsqrt = value.getDefiningOp<graph::RsqrtOp>())
    return shiftedMeanSquare(rsqrt.getX(), x);
  else if (auto power = value.getDefiningOp<graph::PowerOp>(); power && power.getExponent().convertToDouble() == -0.5)
    return shiftedMeanSquare(power.getX(), x);
  auto sqrt = root ? root.getDefiningOp<graph::SqrtOp>() : nullptr;
  return sqrt ? shiftedMeanSquare(sqrt.getX(), x) : std::nullopt;
}

/// The operand of a broadcast along the last dimension.
Value spreadRow(Value value) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  return broadcast && shapeOf(broadcast.getX()).back() == 1 &&
                 typeOf(broadcast.getX()).getRank() == typeOf(value).getRank()
             ? broadcast.getX()
             : Value();
}

/// x and epsilon where `value` is the normalised x.
std::optional<std::pair<Value, double>> normalised(Value value) {
  std::optional<std::pair<Value, double>> found;
  if (auto product = value.getDefiningOp<graph::MulOp>())
    eitherOrder(product, [&](Value x, Value factor) {
      Value row = spreadRow(factor);
      std::optional<double> epsilon = row ? inverseRoot(row, x) : std::nullopt;
      if (epsilon)
        found = {x, *epsilon};
      return epsilon.has_value();
    });
  if (auto quotient = value.getDefiningOp<graph::DivOp>()) {
    Value row = spreadRow(quotient.getB());
    auto sqrt = row ? row.getDefiningOp<graph::SqrtOp>() : nullptr;
    if (std::optional<double> epsilon = sqrt ? shiftedMeanSquare(sqrt.getX(), quotient.getA()) : std::nullopt)
      found = {quotient.getA(), *epsilon};
  }
  return found;
}

Value normalizedRow(OpBuilder &builder, graph::MulOp product) {
  Value result;
  eitherOrder(product, [&](Value weightRows, Value rows) {
    auto broadcast = weightRows.getDefiningOp<graph::BroadcastOp>();
    if (!broadcast || typeOf(broadcast.getX()).getRank() != 1 || shapeOf(broadcast.getX())[0] != shapeOf(rows).back())
      return false;
    auto norm = normalised(rows);
    if (!norm)
      return false;
    result = graph::RmsNormOp::create(builder, product.getLoc(), norm->first, broadcast.getX(), norm->second);
    return true;
  });
  return result;
}

} // namespace

unsigned raiseRmsNorm(func::FuncOp function) {
  return forEachOp<graph::MulOp>(function, normalizedRow);
}

} // namespace ztc::importer
