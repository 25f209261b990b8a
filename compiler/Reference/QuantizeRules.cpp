// Reference rules of weights in fewer bits, and of products in fp8.
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/WeightFormats.h"
#include "compiler/Reference/Interpreter.h"
#include <algorithm>
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

static Fp8Format formatOf(const Tensor &codes) {
  return isa<Float8E4M3FNType>(codes.elementType) ? Fp8Format::E4m3 : Fp8Format::E5m2;
}

static double largestMagnitude(const Tensor &x) {
  double largest = 0;
  for (double value : x.reals)
    largest = std::isnan(value) || std::isnan(largest) ? std::numeric_limits<double>::quiet_NaN()
                                                       : std::max(largest, std::abs(value));
  return largest;
}

/// What a number becomes. Without rounding codes are numbers times their scale, within what the format has: the product
/// of two is what it would be without any, where scales are of these numbers.
static double codeOf(double value, double scale, Fp8Format format, bool rounds) {
  const double largest = largestFp8(format);
  return rounds ? fromFp8(toFp8(float(value) * float(scale), format), format)
                : std::clamp(value * scale, -largest, largest);
}

/// The codes of `x` in the orders that are asked for.
static void writeCodes(const Tensor &x, double scale, bool rounds, Tensor *byRows, Tensor *byColumns) {
  const Fp8Format format = formatOf(byRows ? *byRows : *byColumns);
  const int64_t rows = x.shape[0], columns = x.shape[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const double code = codeOf(x.reals[row * columns + column], scale, format, rounds);
      if (byRows)
        byRows->reals[row * columns + column] = code;
      if (byColumns)
        byColumns->reals[column * rows + row] = code;
    }
}

static void runQuantizeFp8(graph::QuantizeFp8Op op, Operands operands, Results results, Interpreter &interpreter) {
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  const Fp8Format format = formatOf(results[1]);
  const double largest = largestMagnitude(op.getAmax() ? *operands[1] : *operands[0]);
  const Fp8Scale rounded = fp8Scale(float(largest), format);
  const double exact = largestFp8(format) / std::max(largest, double(kSmallestFp8Range));
  results[0].reals =
      rounds ? std::vector<double>{rounded.inverse, rounded.scale} : std::vector<double>{1 / exact, exact};
  writeCodes(*operands[0], rounds ? rounded.scale : exact, rounds, op.getByRows() ? &results[1] : nullptr,
             op.getByColumns() ? &results.back() : nullptr);
}

static void runFp8Scales(graph::Fp8ScalesOp, Operands operands, Results results, Interpreter &interpreter) {
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  for (auto [index, largest] : llvm::enumerate(operands[1]->reals)) {
    const double amax = operands[0]->reals[index * kFp8ScaleRecord],
                 bounded = std::max(amax, double(kSmallestFp8Range));
    double scale = amax > 0 ? largest / bounded : 1, inverse = 1 / scale;
    if (rounds) {
      scale = amax > 0 ? float(largest) / float(bounded) : 1.0f;
      inverse = 1.0f / float(scale);
    }
    for (uint64_t place = 0; place < kFp8ScaleRecord; ++place)
      results[0].reals[index * kFp8ScaleRecord + place] = place % 2 ? scale : inverse;
  }
}

static void runEncodeFp8(graph::EncodeFp8Op op, Operands operands, Results results, Interpreter &interpreter) {
  results[0].reals[0] = largestMagnitude(*operands[0]);
  writeCodes(*operands[0], operands[1]->reals[1], interpreter.getOptions().precision == Precision::F32,
             op.getByRows() ? &results[1] : nullptr, op.getByColumns() ? &results.back() : nullptr);
}

static void runFp8Codes(graph::Fp8CodesOp, Operands operands, Results results, Interpreter &interpreter) {
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  for (auto [x, scale, code] : llvm::zip_equal(operands[0]->reals, operands[1]->reals, results[0].reals))
    code = codeOf(x, scale, formatOf(results[0]), rounds);
}

static void transpose(const Tensor &codes, Tensor &to) {
  const int64_t rows = codes.shape[0], columns = codes.shape[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      to.reals[column * rows + row] = codes.reals[row * columns + column];
}

static void runNoteCodes(graph::NoteCodesOp, Operands operands, Results results) {
  results[0].reals[0] = largestMagnitude(*operands[1]);
  transpose(*operands[0], results[1]);
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
  transpose(*operands[0], results[0]);
}

/// The factor of both scales is a product of f32, as devices compute it.
static void runScaledMatmul(graph::ScaledMatmulOp, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &a = *operands[0], &b = *operands[1];
  Tensor &y = results[0];
  const double left = operands[2]->reals[0], right = operands[3]->reals[0];
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
  table.add<graph::Fp8ScalesOp>(runFp8Scales);
  table.add<graph::EncodeFp8Op>(runEncodeFp8);
  table.add<graph::Fp8CodesOp>(runFp8Codes);
  table.add<graph::NoteCodesOp>(runNoteCodes);
  table.add<graph::RowAmaxOp>(runRowAmax);
  table.add<graph::TransposeCodesOp>(runTransposeCodes);
  table.add<graph::ScaledMatmulOp>(runScaledMatmul);
  table.add<graph::DequantizeOp>(runDequantize);
}

} // namespace ztc
