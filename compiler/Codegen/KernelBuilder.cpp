#include "compiler/Codegen/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace ztc::codegen {

int64_t lanesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

int64_t storedBytes(Type element) {
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

bool isNarrow(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
}

StringRef typeSuffix(Type element) {
  return element.isBF16() ? "_bf16" : element.isF16() ? "_f16" : "";
}

Type registerType(Type element) {
  return isNarrow(element) ? Type(Float32Type::get(element.getContext())) : element;
}

Type KernelBuilder::shaped(int64_t lanes, Type element) {
  return lanes == 1 ? element : VectorType::get({lanes}, element);
}

Type KernelBuilder::shaped(Type like, Type element) {
  return shaped(lanesOf(like), element);
}

Value KernelBuilder::real(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attribute = getFloatAttr(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, Attribute(attribute));
  return arith::ConstantOp::create(*this, attribute);
}

Value KernelBuilder::integer(Type type, int64_t value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attribute = getIntegerAttr(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, Attribute(attribute));
  return arith::ConstantOp::create(*this, attribute);
}

bool isReal(Value x) {
  return isa<FloatType>(getElementTypeOrSelf(x.getType()));
}

Value KernelBuilder::add(Value a, Value b) {
  return isReal(a) ? arith::AddFOp::create(*this, a, b).getResult() : arith::AddIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::sub(Value a, Value b) {
  return isReal(a) ? arith::SubFOp::create(*this, a, b).getResult() : arith::SubIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::mul(Value a, Value b) {
  return isReal(a) ? arith::MulFOp::create(*this, a, b).getResult() : arith::MulIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::div(Value a, Value b) {
  return isReal(a) ? arith::DivFOp::create(*this, a, b).getResult() : arith::DivSIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(*this, a, b, c);
}
Value KernelBuilder::sqrt(Value x) {
  return math::SqrtOp::create(*this, x);
}
Value KernelBuilder::exp(Value x) {
  return math::ExpOp::create(*this, x);
}
Value KernelBuilder::log(Value x) {
  return math::LogOp::create(*this, x);
}
Value KernelBuilder::tanh(Value x) {
  return math::TanhOp::create(*this, x);
}
Value KernelBuilder::negate(Value x) {
  return isReal(x) ? arith::NegFOp::create(*this, x).getResult() : sub(integer(x.getType(), 0), x);
}
Value KernelBuilder::absolute(Value x) {
  if (!isReal(x))
    return maximum(x, negate(x));
  return math::AbsFOp::create(*this, x);
}
Value KernelBuilder::compare(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(*this, predicate, a, b);
}
Value KernelBuilder::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(*this, predicate, a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}

// arith.maximumf becomes llvm.maximum, one instruction of a GPU, which costs more than it should on x86: there this
// form keeps NaN and needs two instructions, as maxps returns its second operand where one is NaN. The sign of a zero
// follows the operands' order, as in a comparison; on a GPU +0 is greater.
Value KernelBuilder::maximum(Value a, Value b) {
  if (!isReal(a))
    return arith::MaxSIOp::create(*this, a, b);
  if (forGpu)
    return arith::MaximumFOp::create(*this, a, b);
  Value greater = select(compare(arith::CmpFPredicate::OGT, a, b), a, b);
  return select(compare(arith::CmpFPredicate::UNO, a, a), a, greater);
}
Value KernelBuilder::minimum(Value a, Value b) {
  if (!isReal(a))
    return arith::MinSIOp::create(*this, a, b);
  if (forGpu)
    return arith::MinimumFOp::create(*this, a, b);
  Value less = select(compare(arith::CmpFPredicate::OLT, a, b), a, b);
  return select(compare(arith::CmpFPredicate::UNO, a, a), a, less);
}
Value KernelBuilder::bitcast(Value x, Type element) {
  return arith::BitcastOp::create(*this, shaped(x.getType(), element), x);
}

/// f32 rounded to the nearest bf16, ties to even; what is not a number becomes quiet and keeps its upper half. GPUs
/// have an instruction for it, whose NaN is 0x7fff.
static Value roundToBf16(KernelBuilder &b, Value x) {
  Value bits = b.bitcast(x, b.getI32Type());
  auto constant = [&](uint32_t value) { return b.integer(bits.getType(), static_cast<int32_t>(value)); };
  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, constant(16)), constant(1));
  Value rounded = b.add(b.add(bits, constant(0x7fff)), odd);
  Value quiet = arith::OrIOp::create(b, bits, constant(0x400000));
  rounded = b.select(b.compare(arith::CmpFPredicate::UNO, x, x), quiet, rounded);
  return b.bitcast(arith::AndIOp::create(b, rounded, constant(0xffff0000)), b.getF32Type());
}

Value KernelBuilder::convertReal(Value x, Type element) {
  Type from = getElementTypeOrSelf(x.getType()), to = registerType(element);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    x = arith::ExtFOp::create(*this, shaped(x.getType(), to), x);
  else if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    x = arith::TruncFOp::create(*this, shaped(x.getType(), to), x);
  if (element.isBF16() && !forGpu)
    return roundToBf16(*this, x);
  if (isNarrow(element)) {
    Value narrow = arith::TruncFOp::create(*this, shaped(x.getType(), element), x);
    int64_t lanes = lanesOf(x.getType());
    if (element.isBF16() && lanes % 2 == 0) {
      auto words = VectorType::get({lanes / 2}, getI32Type());
      Value wide = widenPairs(vector::BitCastOp::create(*this, words, narrow));
      asStored_[wide] = narrow;
      return wide;
    }
    return arith::ExtFOp::create(*this, x.getType(), narrow);
  }
  return x;
}

/// A number that the hardware gives in 32 bits.
static Value widened(KernelBuilder &b, Value number) {
  return arith::ExtUIOp::create(b, b.getI64Type(), number);
}

Value KernelBuilder::threadNumber() {
  return widened(*this, NVVM::ThreadIdXOp::create(*this, getI32Type()));
}

Value KernelBuilder::blockNumber() {
  return widened(*this, NVVM::BlockIdXOp::create(*this, getI32Type()));
}

void KernelBuilder::barrier() {
  NVVM::Barrier0Op::create(*this);
}

Value KernelBuilder::ballot(Value condition) {
  Type i32 = getI32Type();
  return NVVM::VoteSyncOp::create(*this, i32, integer(i32, -1), condition, NVVM::VoteSyncKind::ballot);
}

Value KernelBuilder::exchange(Value value, int64_t mask) {
  Type i32 = getI32Type();
  Value all = integer(i32, -1), other = integer(i32, mask), last = integer(i32, 31);
  return NVVM::ShflOp::create(*this, value.getType(), all, value, other, last, NVVM::ShflKind::bfly, UnitAttr());
}

Value KernelBuilder::fp8Pair(Value first, Value second, Type format) {
  return NVVM::ConvertF32x2ToF8x2Op::create(*this, getI16Type(), second, first, NVVM::FPRoundingMode::RN,
                                            NVVM::SaturationMode::SATFINITE, /*relu=*/false, format);
}

Type KernelBuilder::element(Type type) {
  type = getElementTypeOrSelf(type);
  if (auto integer = dyn_cast<IntegerType>(type))
    return getIntegerType(integer.getWidth());
  if (type.isF32())
    return getF32Type();
  if (type.isF64())
    return getF64Type();
  if (type.isBF16())
    return getBF16Type();
  if (type.isF16())
    return getF16Type();
  if (isa<Float8E4M3FNType, Float8E5M2Type>(type))
    return getI8Type(); // codes: nothing in a kernel reads their numbers
  return {};
}

SmallVector<Value> KernelBuilder::forRange(Value begin, Value end, int64_t step, SmallVector<Value> carried,
                                           llvm::function_ref<void(Value, SmallVector<Value> &)> body) {
  auto loop = scf::ForOp::create(*this, begin, end, integer(begin.getType(), step), carried);
  OpBuilder::InsertionGuard guard(*this);
  if (carried.empty()) {
    setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), carried);
    return {};
  }
  setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  body(loop.getInductionVar(), inner);
  scf::YieldOp::create(*this, inner);
  return SmallVector<Value>(loop.getResults().begin(), loop.getResults().end());
}

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  if (lanes == 1)
    return scalar;
  return vector::BroadcastOp::create(*this, shaped(lanes, scalar.getType()), scalar);
}

Value KernelBuilder::foldLanes(ArrayRef<Value> quarters, llvm::function_ref<Value(Value, Value)> combine) {
  Value low = combine(quarters[0], quarters[2]), high = combine(quarters[1], quarters[3]);
  Value folded = combine(low, high);
  for (int64_t half = kChunk / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> first, second;
    for (int64_t i = 0; i < half; ++i) {
      first.push_back(i);
      second.push_back(i + half);
    }
    folded = combine(vector::ShuffleOp::create(*this, folded, folded, first),
                     vector::ShuffleOp::create(*this, folded, folded, second));
  }
  return vector::ExtractOp::create(*this, folded, 0);
}

Value KernelBuilder::address(Value base, Type element, Value index) {
  Type stored = element.isInteger(1) ? Type(getI8Type()) : element;
  return LLVM::GEPOp::create(*this, base.getType(), stored, base, ValueRange{index});
}

Value KernelBuilder::widenPairs(Value pairs) {
  Value even = arith::ShLIOp::create(*this, pairs, integer(pairs.getType(), 16));
  Value odd = arith::AndIOp::create(*this, pairs, integer(pairs.getType(), -65536));
  return bitcast(vector::InterleaveOp::create(*this, even, odd), getF32Type());
}

Value KernelBuilder::load(Value pointer, Type element, int64_t lanes, int64_t alignment) {
  if (element.isInteger(1)) {
    Value bytes = load(pointer, getI8Type(), lanes, alignment);
    return compare(arith::CmpIPredicate::ne, bytes, integer(bytes.getType(), 0));
  }
  if (element.isBF16() && forGpu && lanes % 2 == 0 && alignment % 4 == 0) {
    auto words = VectorType::get({lanes / 2}, getI32Type());
    Value pairs = LLVM::LoadOp::create(*this, words, pointer, alignment), wide = widenPairs(pairs);
    asStored_[wide] = pairs;
    return wide;
  }
  if (element.isBF16()) {
    Value wide =
        arith::ExtUIOp::create(*this, shaped(lanes, getI32Type()), load(pointer, getI16Type(), lanes, alignment));
    return bitcast(arith::ShLIOp::create(*this, wide, integer(wide.getType(), 16)), getF32Type());
  }
  Value value =
      LLVM::LoadOp::create(*this, shaped(lanes, element), pointer, alignment ? alignment : storedBytes(element));
  return element.isF16() ? arith::ExtFOp::create(*this, shaped(lanes, getF32Type()), value).getResult() : value;
}

void KernelBuilder::store(Value value, Value pointer, int64_t alignment) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isInteger(1)) {
    value = arith::ExtUIOp::create(*this, shaped(value.getType(), getI8Type()), value);
    element = getI8Type();
  }
  LLVM::StoreOp::create(*this, value, pointer, alignment ? alignment : storedBytes(element));
}

void KernelBuilder::store(Value value, Value pointer, Type element, int64_t alignment) {
  if (Value stored = asStored_.lookup(value); stored && element.isBF16()) {
    value = stored;
  } else if (element.isBF16()) {
    Value bits = bitcast(value, getI32Type());
    Value high = arith::ShRUIOp::create(*this, bits, integer(bits.getType(), 16));
    value = arith::TruncIOp::create(*this, shaped(bits.getType(), getI16Type()), high);
  } else if (element.isF16()) {
    value = arith::TruncFOp::create(*this, shaped(value.getType(), element), value);
  }
  store(value, pointer, alignment);
}

Value KernelBuilder::maskedLoad(Value pointer, Value mask, Value other) {
  Type element = getElementTypeOrSelf(other.getType());
  return LLVM::MaskedLoadOp::create(*this, other.getType(), pointer, mask, other,
                                    getI32IntegerAttr(storedBytes(element)));
}

void KernelBuilder::maskedStore(Value value, Value pointer, Value mask) {
  Type element = getElementTypeOrSelf(value.getType());
  LLVM::MaskedStoreOp::create(*this, value, pointer, mask, getI32IntegerAttr(storedBytes(element)));
}

} // namespace ztc::codegen
