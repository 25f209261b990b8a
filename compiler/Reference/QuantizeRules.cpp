// Reference rules of weights in fewer bits, and of products in fp8.
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/WeightFormats.h"
#include "compiler/Reference/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc {

/// The products are of f32 whatever the precision: they say which numbers the bytes stand for.
static LogicalResult runDequantize(graph::DequantizeOp op, Operands operands, Results results) {
  const Tensor &codes = *operands[0];
  Tensor &y = results[0];
  std::optional<QuantizedLayout> layout =
      quantizedLayout(graph::planFormat(op.getFormat()), uint64_t(y.shape[0]), uint64_t(y.shape[1]));
  if (!layout || layout->bytes != codes.integers.size())
    return op.emitOpError("has bytes that do not hold a weight of its shape");
  std::vector<std::byte> bytes(layout->bytes);
  for (auto [byte, code] : llvm::zip_equal(bytes, codes.integers))
    byte = std::byte(code & 0xff);
  std::vector<float> numbers(layout->elements());
  dequantize(bytes.data(), *layout, 0, numbers.size(), numbers.data());
  llvm::copy(numbers, y.reals.begin());
  return success();
}

/// Without rounding codes are x times its scale: the product of two is what it would be without any.
static void runQuantizeFp8(graph::QuantizeFp8Op op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &x = *operands[0];
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  const Fp8Format format = isa<Float8E4M3FNType>(results[1].elementType) ? Fp8Format::E4m3 : Fp8Format::E5m2;
  double largest = 0;
  for (double value : (op.getAmax() ? operands[1] : operands[0])->reals)
    largest = std::isnan(value) || std::isnan(largest) ? std::numeric_limits<double>::quiet_NaN()
                                                       : std::max(largest, std::abs(value));
  const Fp8Scale rounded = fp8Scale(float(largest), format);
  const double exact = largestFp8(format) / std::max(largest, double(kSmallestFp8Range));
  results[0].reals =
      rounds ? std::vector<double>{rounded.scale, rounded.inverse} : std::vector<double>{exact, 1 / exact};
  const int64_t rows = x.shape[0], columns = x.shape[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const double value = x.reals[row * columns + column];
      const double code = rounds ? fromFp8(toFp8(float(value) * rounded.scale, format), format) : value * exact;
      if (op.getByRows())
        results[1].reals[row * columns + column] = code;
      if (op.getByColumns())
        results.back().reals[column * rows + row] = code;
    }
}

static void runRowAmax(graph::RowAmaxOp, Operands operands, Results results) {
  const Tensor &x = *operands[0];
  const int64_t rows = x.shape[0], columns = x.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    double largest = 0;
    for (int64_t column = 0; column < columns; ++column) {
      const double magnitude = std::abs(x.reals[row * columns + column]);
      largest = std::isnan(largest) || largest > magnitude ? largest : magnitude;
    }
    results[0].reals[row] = largest;
  }
}

static void runTransposeCodes(graph::TransposeCodesOp, Operands operands, Results results) {
  const Tensor &codes = *operands[0];
  const int64_t rows = codes.shape[0], columns = codes.shape[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      results[0].reals[column * rows + row] = codes.reals[row * columns + column];
}

/// The factor of both scales is a product of f32, as devices compute it.
static void runScaledMatmul(graph::ScaledMatmulOp, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &a = *operands[0], &b = *operands[1];
  Tensor &y = results[0];
  const double left = operands[2]->reals[1], right = operands[3]->reals[1];
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  const double scale = rounds ? float(left) * float(right) : left * right;
  const int64_t rows = a.shape[0], columns = b.shape[0], depth = a.shape[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += a.reals[row * depth + k] * b.reals[column * depth + k];
      y.reals[row * columns + column] = sum * scale;
    }
}

void addQuantizeRules(RuleTable &table) {
  table.add<graph::QuantizeFp8Op>(runQuantizeFp8);
  table.add<graph::RowAmaxOp>(runRowAmax);
  table.add<graph::TransposeCodesOp>(runTransposeCodes);
  table.add<graph::ScaledMatmulOp>(runScaledMatmul);
  table.add<graph::DequantizeOp>(runDequantize);
}

} // namespace ztc
