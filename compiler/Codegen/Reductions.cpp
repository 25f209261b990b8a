// Sums and maxima. The order of additions is a function of the reduced shape alone:
// - over the last dimension: column c adds into virtual lane c mod 64, lanes start at +0.0 (-inf for maxima), further
// reduced
//   dimensions run outside the columns, and a halving tree folds the lanes;
// - over other dimensions only: one running value per element, starting at +0.0, in row-major order.
// Sums of narrow floats run in f32 and round once at the end, to the type of the result.
#include "compiler/Codegen/KernelEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace ztc::codegen {

Value KernelEmitter::combine(KernelBuilder &b, Value x, Value y, bool sum) {
  return sum ? b.add(x, y) : b.maximum(x, y);
}

Value KernelEmitter::identity(KernelBuilder &b, Type type, bool sum) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    return b.real(type, sum ? 0.0 : -std::numeric_limits<double>::infinity());
  return b.integer(type, sum ? 0 : llvm::minIntN(element.getIntOrFloatBitWidth()));
}

Value KernelEmitter::fold(ArrayRef<Value> quarters, bool sum, unsigned level) {
  KernelBuilder &b = at(level);
  return b.foldLanes(quarters, [&](Value x, Value y) { return combine(b, x, y, sum); });
}

void KernelEmitter::accumulate(const ColumnChunk &chunk, Value value, bool sum, Value neutral, Carried &carried,
                               unsigned first) {
  value = widen(value, chunk.lanes, chunk.level);
  KernelBuilder &b = at(chunk.level);
  if (chunk.lanes < kChunk) {
    int64_t offset = chunk.phase % kChunk;
    Value padded = neutral;
    for (int64_t i = 0; i < chunk.lanes; ++i) {
      Value scalar = chunk.lanes == 1 ? value : vector::ExtractOp::create(b, value, i).getResult();
      padded = vector::InsertOp::create(b, scalar, padded, offset + i);
    }
    value = padded;
  }
  Value &quarter = carried[first + chunk.phase / kChunk];
  quarter = combine(b, quarter, value, sum);
}

LogicalResult KernelEmitter::overAxes(unsigned level, ArrayRef<int64_t> axes, ArrayRef<int64_t> shape, Access &access,
                                      Carried &carried, llvm::function_ref<LogicalResult(unsigned, Carried &)> body) {
  if (axes.empty())
    return body(level, carried);
  return forLoop(level, shape[axes.front()], carried, [&](const IndexSymbol *index, unsigned inner, Carried &values) {
    access[axes.front()] = IndexExpr(index);
    return overAxes(inner, axes.drop_front(), shape, access, values, body);
  });
}

Element KernelEmitter::emitReduce(Operation *op, bool sum, ArrayRef<IndexExpr> wanted) {
  auto source = cast<RankedTensorType>(op->getOperand(0).getType());
  if (!source.hasStaticShape())
    return fail(op, "reduces a dimension whose size is not known to the kernel");
  Access access(wanted);
  SmallVector<int64_t> outer;
  bool last = false;
  for (int64_t axis : op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef()) {
    if (source.getDimSize(axis) == 1)
      continue;
    if (axis + 1 == source.getRank())
      last = true;
    else
      outer.push_back(axis);
  }
  if (!last && outer.empty()) {
    Element only = emit(op->getOperand(0), access);
    return only ? Element{at(only.level).convertReal(only.value, element(op->getResult(0).getType())), only.level}
                : only;
  }
  if (!last)
    return reduceOuter(op, sum, outer, access);
  return reduceLast(op, sum, outer, access);
}

Element KernelEmitter::reduceLast(Operation *op, bool sum, ArrayRef<int64_t> outer, const Access &access) {
  if (const IndexSymbol *lane = laneOf(access)) {
    restartScalar(lane->columnLoop); // the columns of the reduction need the lanes
    return {};
  }
  return plans_.scalar.contains(op) ? reduceRowByElement(op, sum, outer, access) : reduceRow(op, sum, outer, access);
}

Element KernelEmitter::reduceRow(Operation *op, bool sum, ArrayRef<int64_t> outerAxes, Access access) {
  Value source = op->getOperand(0);
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  Type stored = element(op->getResult(0).getType());
  unsigned level = levelOf(access);
  KernelBuilder &b = at(level);
  Type wide = registerType(element(source.getType()));
  Value neutral = identity(b, KernelBuilder::shaped(kChunk, wide), sum);
  SmallVector<Value> quarters(kVirtualLanes / kChunk, neutral);
  auto columns = [&](unsigned inner, Carried &outside) {
    return forColumns(inner, shape.back(), op, kVirtualLanes, outside,
                      [&](const ColumnChunk &chunk, Carried &values) -> LogicalResult {
                        access.back() = chunk.column;
                        Element value = emit(source, access);
                        if (!value)
                          return failure();
                        accumulate(chunk, value.value, sum, neutral, values);
                        return success();
                      });
  };
  if (failed(overAxes(level, outerAxes, shape, access, quarters, columns)))
    return {};
  Value folded = fold(quarters, sum, level);
  return {at(level).convertReal(folded, stored), level};
}

// The same sums with one lane after the other: the lanes of a column do not stand together in what is reduced.
Element KernelEmitter::reduceRowByElement(Operation *op, bool sum, ArrayRef<int64_t> outerAxes, Access access) {
  Value source = op->getOperand(0);
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  Type stored = element(op->getResult(0).getType());
  unsigned level = levelOf(access);
  Type wide = registerType(element(source.getType()));
  Value lanes = stack(wide, kVirtualLanes);
  KernelBuilder &b = at(level);
  Value neutral = identity(b, wide, sum), neutralChunk = identity(b, KernelBuilder::shaped(kChunk, wide), sum);
  for (int64_t quarter = 0; quarter < kVirtualLanes; quarter += kChunk)
    b.store(neutralChunk, b.address(lanes, wide, b.i64(quarter)));
  SmallVector<Value> none;
  LogicalResult done = forLoop(
      level, std::min(shape.back(), kVirtualLanes), none, [&](const IndexSymbol *lane, unsigned inner, Carried &) {
        SmallVector<Value> total{neutral};
        auto columns = [&](unsigned depth, Carried &outside) {
          IndexSymbol facts;
          facts.maximum = shape.back() - 1;
          facts.columnLoop = op;
          Value size = at(depth).i64(shape.back());
          return forLoop(depth, lane->value, size, kVirtualLanes, facts, outside,
                         [&](const IndexSymbol *column, unsigned innermost, Carried &values) -> LogicalResult {
                           access.back() = IndexExpr(column);
                           Element value = emit(source, access);
                           if (!value)
                             return failure();
                           KernelBuilder &at = this->at(innermost);
                           values[0] = combine(at, values[0], value.value, sum);
                           return success();
                         });
        };
        if (failed(overAxes(inner, outerAxes, shape, access, total, columns)))
          return failure();
        KernelBuilder &at = this->at(inner);
        at.store(total[0], at.address(lanes, wide, lane->value));
        return success();
      });
  if (failed(done))
    return {};
  SmallVector<Value> quarters;
  KernelBuilder &after = at(level);
  for (int64_t quarter = 0; quarter < kVirtualLanes; quarter += kChunk)
    quarters.push_back(after.load(after.address(lanes, wide, after.i64(quarter)), wide, kChunk));
  Value folded = fold(quarters, sum, level);
  return {at(level).convertReal(folded, stored), level};
}

Element KernelEmitter::reduceOuter(Operation *op, bool sum, ArrayRef<int64_t> axes, Access access) {
  Value source = op->getOperand(0);
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  Type stored = element(op->getResult(0).getType());
  unsigned level = levelOf(access);
  const IndexSymbol *lane = laneOf(access);
  KernelBuilder &b = at(level);
  Type type = KernelBuilder::shaped(lane ? lane->maximum + 1 : 1, registerType(element(source.getType())));
  SmallVector<Value> total{identity(b, type, sum)};
  LogicalResult done =
      overAxes(level, axes, shape, access, total, [&](unsigned inner, Carried &values) -> LogicalResult {
        Element value = emit(source, access);
        if (!value)
          return failure();
        Value addend = widen(value.value, lanesOf(type), inner);
        values[0] = combine(at(inner), values[0], addend, sum);
        return success();
      });
  if (failed(done))
    return {};
  return {at(level).convertReal(total[0], stored), level};
}

} // namespace ztc::codegen
