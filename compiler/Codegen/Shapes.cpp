// Ops that move data: an element of the result is an element of an operand at another index.
#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "runtime/Format/Shards.h"
#include <limits>

using namespace mlir;

namespace ztc::codegen {

Element KernelEmitter::emitOp(Operation *op, Value value, ArrayRef<IndexExpr> access) {
  auto source = op->getNumOperands() ? op->getOperand(0) : Value();
  return llvm::TypeSwitch<Operation *, Element>(op)
      .Case([&](graph::ConstantOp) { return emitConstant(op, access); })
      .Case([&](graph::IotaOp) { return emitIota(op, access); })
      .Case([&](graph::CompareOp) { return emitCompare(cast<OpResult>(value), access); })
      .Case([&](graph::BarrierOp) { return emit(source, access); })
      .Case([&](graph::ReshapeOp) {
        return emitReshape(source, cast<RankedTensorType>(value.getType()).getShape(), access);
      })
      .Case([&](graph::TransposeOp transpose) {
        Access moved(access.size());
        for (auto [index, dimension] : llvm::zip_equal(access, transpose.getPermutation()))
          moved[dimension] = index;
        return emit(source, moved);
      })
      .Case([&](graph::BroadcastOp) {
        // Aligned from the right; emit() drops the index of what has size 1.
        return emit(source, access.take_back(cast<RankedTensorType>(source.getType()).getRank()));
      })
      .Case([&](graph::SliceOp slice) {
        Access moved;
        for (auto [index, offset] : llvm::zip_equal(access, slice.getOffsets()))
          moved.push_back(index + offset);
        return emit(source, moved);
      })
      .Case([&](graph::PadOp) { return emitPad(op, access); })
      .Case([&](graph::ConcatOp) { return emitConcat(op, access); })
      .Case([&](graph::DecodeBlocksOp) { return emitDecodeBlocks(op, access); })
      .Case([&](graph::ReduceSumOp) { return emitReduce(op, /*sum=*/true, access); })
      .Case([&](graph::ReduceMaxOp) { return emitReduce(op, /*sum=*/false, access); })
      .Default([&](Operation *) { return emitElementwise(cast<OpResult>(value), access); });
}

// Dimensions are matched in groups of equal products, from the right: only inside a group that is split or merged are
// indices divided.
Element KernelEmitter::emitReshape(Value source, ArrayRef<int64_t> shape, ArrayRef<IndexExpr> access) {
  auto from = cast<RankedTensorType>(source.getType()).getShape();
  if (Value pointer = pointers_.lookup(source))
    return load(pointer, element(source.getType()), linearize(access, shape));
  Access moved(from.size(), IndexExpr());
  int64_t i = from.size(), j = shape.size();
  while (i > 0 && j > 0) {
    int64_t lastSource = i, lastResult = j, sourceSize = from[--i], resultSize = shape[--j];
    while (sourceSize != resultSize) {
      if (sourceSize < resultSize)
        sourceSize *= from[--i];
      else
        resultSize *= shape[--j];
    }
    IndexExpr linear = linearize(access.slice(j, lastResult - j), shape.slice(j, lastResult - j));
    auto parts = delinearize(linear, from.slice(i, lastSource - i));
    if (!parts)
      return {};
    llvm::copy(*parts, moved.begin() + i);
  }
  return emit(source, moved);
}

std::optional<int> KernelEmitter::placeWithin(const IndexExpr &index, int64_t low, int64_t size) {
  if (index.minimum() >= low && index.maximum() < low + size)
    return 1;
  if (index.maximum() < low || index.minimum() >= low + size)
    return 0;
  int64_t coefficient = 0;
  const IndexSymbol *lane = index.lane(&coefficient);
  if (!lane)
    return -1;
  // Lanes on both sides of an edge: cut the column loop there, if the index is a column of that loop plus a constant.
  restart_ = true;
  LoopKey key = lane->columnLoop;
  bool shiftedColumn = coefficient == 1 && index.terms().size() == 2;
  for (const IndexExpr::Term &term : index.terms())
    shiftedColumn &= term.coefficient == 1 && term.symbol->columnLoop == key;
  bool isNew = false;
  if (shiftedColumn)
    for (int64_t edge : {low, low + size})
      if (edge > index.minimum() && edge <= index.maximum())
        isNew |= plans_.splits[key].insert(edge - index.constant() + columnBase(key)).second;
  if (!isNew)
    restartScalar(key);
  return std::nullopt;
}

std::pair<Element, IndexExpr> KernelEmitter::limit(const IndexExpr &index, int64_t low, int64_t size) {
  unsigned level = index.level();
  IndexExpr shifted = index - low;
  Value position = materialize(shifted);
  KernelBuilder &b = at(level);
  Value inside = b.compare(arith::CmpIPredicate::ult, position, b.i64(size));
  IndexSymbol facts = derived(index, level);
  facts.value = b.minimum(b.maximum(position, b.i64(0)), b.i64(size - 1));
  facts.maximum = size - 1;
  return {{inside, level}, IndexExpr(symbol(facts))};
}

Element KernelEmitter::choose(Element condition, Element a, Element b) {
  unsigned level = std::max({condition.level, a.level, b.level});
  int64_t lanes = std::max(lanesOf(a.value.getType()), lanesOf(b.value.getType()));
  Value first = widen(a.value, lanes, level), second = widen(b.value, lanes, level);
  Value mask = widen(condition.value, lanes, level);
  return {at(level).select(mask, first, second), level};
}

Element KernelEmitter::emitPad(Operation *op, ArrayRef<IndexExpr> access) {
  auto pad = cast<graph::PadOp>(op);
  auto shape = cast<RankedTensorType>(pad.getX().getType()).getShape();
  Type type = registerType(element(pad.getX().getType()));
  Element zero{isa<FloatType>(type) ? at(0).real(type, 0.0) : at(0).integer(type, 0), 0};
  Access moved;
  SmallVector<Element> conditions;
  for (auto [index, low, size] : llvm::zip_equal(access, pad.getLow(), shape)) {
    auto place = placeWithin(index, low, size);
    if (!place)
      return {};
    if (*place == 0)
      return zero;
    moved.push_back(index - low);
    if (*place == -1) {
      auto [inside, limited] = limit(index, low, size);
      conditions.push_back(inside);
      moved.back() = limited;
    }
  }
  Element value = emit(pad.getX(), moved);
  for (Element condition : conditions)
    if (value)
      value = choose(condition, value, zero);
  return value;
}

Element KernelEmitter::emitConcat(Operation *op, ArrayRef<IndexExpr> access) {
  auto concat = cast<graph::ConcatOp>(op);
  int64_t axis = concat.getAxis(), low = 0;
  Element result;
  Access moved(access);
  for (Value input : concat.getInputs()) {
    int64_t size = cast<RankedTensorType>(input.getType()).getDimSize(axis);
    auto place = placeWithin(access[axis], low, size);
    if (!place)
      return {};
    if (*place == 1) {
      moved[axis] = access[axis] - low;
      return emit(input, moved);
    }
    if (*place == -1) {
      auto [inside, limited] = limit(access[axis], low, size);
      moved[axis] = limited;
      Element piece = emit(input, moved);
      if (!piece)
        return {};
      result = result ? choose(inside, piece, result) : piece;
    }
    low += size;
  }
  return result;
}

Element KernelEmitter::emitIota(Operation *op, ArrayRef<IndexExpr> access) {
  auto iota = cast<graph::IotaOp>(op);
  const IndexExpr &index = access[iota.getDimension()];
  unsigned level = index.level();
  Value position = materialize(index);
  Type type = element(iota.getY().getType());
  KernelBuilder &b = at(level);
  if (flatStart_)
    position = b.add(position, flatStart_);
  if (type.isInteger(32))
    position = arith::TruncIOp::create(b, type, position);
  int64_t coefficient = 0;
  const IndexSymbol *lane = index.lane(&coefficient);
  if (!lane)
    return {position, level};
  auto lanes = VectorType::get({lane->maximum + 1}, type);
  SmallVector<APInt> offsets;
  for (int64_t i = 0; i <= lane->maximum; ++i)
    offsets.push_back(APInt(type.getIntOrFloatBitWidth(), i * coefficient));
  Value steps = arith::ConstantOp::create(b, lanes, DenseElementsAttr::get(lanes, offsets));
  return {b.add(b.splat(position, lanes.getNumElements()), steps), level};
}

// Tensors of a bucket begin where no lanes are parted: of the lanes of a chunk all or none lie before such a place, so
// that one comparison, and one number of what it chooses, is enough for them.
Element KernelEmitter::emitCompare(OpResult value, ArrayRef<IndexExpr> access) {
  auto compare = cast<graph::CompareOp>(value.getOwner());
  auto iota = compare.getA().getDefiningOp<graph::IotaOp>();
  if (!iota || compare.getPredicate() != graph::Comparison::Less)
    return emitElementwise(value, access);
  int64_t coefficient = 0;
  const IndexExpr &place = access[iota.getDimension()];
  const IndexSymbol *lane = place.lane(&coefficient);
  Element end = emit(compare.getB(), access);
  APInt number;
  if (!lane || coefficient != 1 || !end || !matchPattern(end.value, m_ConstantInt(&number)))
    return emitElementwise(value, access);
  const int64_t lanes = lane->maximum + 1;
  // A shard starts at a multiple of its quantum.
  if (number.getSExtValue() % lanes || place.withoutLane().divisor() % lanes || int64_t(kShardQuantum) % lanes)
    return emitElementwise(value, access);
  Access first(access);
  first[iota.getDimension()] = place.withoutLane();
  return emitElementwise(value, first);
}

Element KernelEmitter::emitConstant(Operation *op, ArrayRef<IndexExpr> access) {
  auto constant = cast<graph::ConstantOp>(op);
  Type type = element(constant.getY().getType());
  if (!type)
    return fail(op, "has an element type that kernels do not know");
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.isSplat())
    return fail(op, "is a table inside a group: tables are operands of a group");
  KernelBuilder &b = at(0);
  if (isa<FloatType>(type)) {
    APFloat number = dense.getSplatValue<APFloat>();
    bool losesInformation = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInformation);
    return {b.real(registerType(type), number.convertToDouble()), 0};
  }
  APInt value = dense.getSplatValue<APInt>();
  return {b.integer(type, type.isInteger(1) ? value.getZExtValue() : value.getSExtValue()), 0};
}

} // namespace ztc::codegen
