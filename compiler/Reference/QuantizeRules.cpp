// Reference rule of weights in fewer bits.
#include "compiler/Dialect/Graph/WeightFormats.h"
#include "compiler/Reference/Interpreter.h"

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

void addQuantizeRules(RuleTable &table) {
  table.add<graph::DequantizeOp>(runDequantize);
}

} // namespace ztc
