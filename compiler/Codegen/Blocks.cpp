// States in blocks of 8-bit codes, as runtime/Format/BlockState.h has them: records of 256 codes and their magnitude.
// Element i has its code at byte i + 4 * (i / 256) of the bucket's records.
#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/Format/BlockState.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ztc::codegen {

static constexpr int64_t kBlockShift = 8;
static_assert(kStateBlock == 1 << kBlockShift);

/// Records and the codes of four elements begin at multiples of this many bytes.
static constexpr int64_t kRecordAlignment = 4;

/// The address of a table of the kernels' module, which is made at its first use.
static Value tableAddress(KernelBuilder &b, StringRef name, ArrayRef<float> values) {
  Operation *around = b.getInsertionBlock()->getParentOp();
  auto module = around->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard back(b);
    b.setInsertionPointToStart(module.getBody());
    const auto count = static_cast<int64_t>(values.size());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getF32Type(), count), /*isConstant=*/true,
                           LLVM::Linkage::Internal, name,
                           DenseElementsAttr::get(RankedTensorType::get({count}, b.getF32Type()), values),
                           /*alignment=*/64);
  }
  return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), name);
}

/// table[index], for each lane of `indices` (i32).
static Value lookUp(KernelBuilder &b, Value table, Value indices) {
  const int64_t lanes = lanesOf(indices.getType());
  if (lanes > 1 && !b.forGpu) {
    Type pointers = VectorType::get({lanes}, table.getType());
    Value places = LLVM::GEPOp::create(b, pointers, b.getF32Type(), table, ValueRange{indices});
    Value all = b.integer(VectorType::get({lanes}, b.getI1Type()), 1);
    return LLVM::masked_gather::create(b, KernelBuilder::shaped(lanes, b.getF32Type()), places, all, ValueRange(),
                                       b.getI32IntegerAttr(storedBytes(b.getF32Type())));
  }
  SmallVector<Value> found;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value index = lanes == 1 ? indices : vector::ExtractOp::create(b, indices, lane).getResult();
    Value place = arith::ExtUIOp::create(b, b.getI64Type(), index);
    found.push_back(b.load(b.address(table, b.getF32Type(), place), b.getF32Type(), 1));
  }
  if (lanes == 1)
    return found.front();
  return vector::FromElementsOp::create(b, KernelBuilder::shaped(lanes, b.getF32Type()), found);
}

static StringRef mapName(bool isSigned) {
  return isSigned ? "ztc_state_map" : "ztc_state_map_unsigned";
}
static StringRef boundsName(bool isSigned) {
  return isSigned ? "ztc_state_bounds" : "ztc_state_bounds_unsigned";
}

bool isSignedState(Value state) {
  return cast<graph::Block8Type>(getElementTypeOrSelf(state.getType())).getIsSigned();
}

Value stateCodes(KernelBuilder &b, Value numbers, Value inverse, bool isSigned) {
  Value normalised = b.mul(numbers, inverse);
  Value bounds = tableAddress(b, boundsName(isSigned), stateMap(isSigned).bounds);
  Type i32 = KernelBuilder::shaped(numbers.getType(), b.getI32Type());
  Value code = b.integer(i32, 0), none = code;
  for (int64_t step = 128; step > 0; step /= 2) {
    Value bound = lookUp(b, bounds, b.add(code, b.integer(i32, step - 1)));
    Value isAbove = b.compare(arith::CmpFPredicate::OLT, bound, normalised);
    code = b.add(code, b.select(isAbove, b.integer(i32, step), none));
  }
  return arith::TruncIOp::create(b, KernelBuilder::shaped(numbers.getType(), b.getI8Type()), code);
}

Value inverseMagnitude(KernelBuilder &b, Value magnitude) {
  Type f32 = b.getF32Type();
  Value smallest = b.real(f32, kSmallestMagnitude);
  Value divisor = b.select(b.compare(arith::CmpFPredicate::OGT, magnitude, smallest), magnitude, smallest);
  return b.div(b.real(f32, 1.0), divisor);
}

/// What the address of an element's code is off `base`, less the element's index.
static Value recordsBefore(KernelBuilder &b, Value base, Value position) {
  Value block = arith::ShRUIOp::create(b, position, b.i64(kBlockShift));
  return b.address(base, b.getI8Type(), b.mul(block, b.i64(kStateBlockBytes - kStateBlock)));
}

/// The address of the magnitude of the block of element `position`.
static Value magnitudeAddress(KernelBuilder &b, Value base, Value position) {
  Value block = arith::ShRUIOp::create(b, position, b.i64(kBlockShift));
  Value record = b.address(base, b.getI8Type(), b.mul(block, b.i64(kStateBlockBytes)));
  return b.address(record, b.getI8Type(), b.i64(kStateBlock));
}

/// Codes that one access may take: a GPU wants its address to be a multiple of its size.
static int64_t codesAtOnce(const KernelBuilder &b, int64_t lanes) {
  return lanes % kRecordAlignment != 0 ? 1 : b.forGpu ? kRecordAlignment : lanes;
}
static int64_t codeAlignment(int64_t lanes) {
  return lanes % kRecordAlignment == 0 ? kRecordAlignment : 1;
}

/// Lanes [first, first + count) of a vector.
static Value lanesFrom(KernelBuilder &b, Value vector, int64_t first, int64_t count) {
  if (lanesOf(vector.getType()) == count)
    return vector;
  if (count == 1)
    return vector::ExtractOp::create(b, vector, first);
  return vector::ShuffleOp::create(b, vector, vector, llvm::to_vector(llvm::seq(first, first + count)));
}

Value KernelEmitter::existsAt(const IndexExpr &index, unsigned level) {
  const IndexGuard guard = guardOf(index, level);
  if (!guard.bound)
    return guard.inside;
  KernelBuilder &b = at(level);
  return b.compare(arith::CmpIPredicate::slt, guard.column, guard.bound);
}

Value KernelEmitter::codesAt(Value state, const IndexExpr &index) {
  const unsigned level = index.level();
  const IndexSymbol *lane = index.lane();
  const int64_t lanes = lane ? lane->maximum + 1 : 1;
  const IndexGuard guard = guardOf(index, level);
  Value position = materialize(index), base = pointers_.lookup(state);
  KernelBuilder &b = at(level);
  Value address = b.address(recordsBefore(b, base, position), b.getI8Type(), position);
  const int64_t atOnce = codesAtOnce(b, lanes);
  if (atOnce == lanes)
    return loadAt(level, guard, address, b.getI8Type(), lanes, codeAlignment(lanes));
  SmallVector<Value> codes;
  for (int64_t first = 0; first < lanes; first += atOnce) {
    KernelBuilder &b = at(level);
    IndexGuard part = guard;
    if (part.bound)
      part.column = b.add(part.column, b.i64(first));
    Value piece = loadAt(level, part, b.address(address, b.getI8Type(), b.i64(first)), b.getI8Type(), atOnce,
                         codeAlignment(atOnce));
    for (int64_t lane = 0; lane < atOnce; ++lane)
      codes.push_back(atOnce == 1 ? piece : vector::ExtractOp::create(at(level), piece, lane).getResult());
  }
  return vector::FromElementsOp::create(at(level), VectorType::get({lanes}, b.getI8Type()), codes);
}

Value KernelEmitter::magnitudeAt(Value state, const IndexExpr &index) {
  const unsigned level = index.level();
  Value exists = existsAt(index, level), position = materialize(index), base = pointers_.lookup(state);
  KernelBuilder &b = at(level);
  IndexGuard guard;
  guard.inside = exists;
  return loadAt(level, guard, magnitudeAddress(b, base, position), b.getF32Type(), 1, kRecordAlignment);
}

Element KernelEmitter::emitDecodeBlocks(Operation *op, ArrayRef<IndexExpr> access) {
  Value state = op->getOperand(0);
  if (!pointers_.lookup(state))
    return fail(op, "decodes what is not an operand of its kernel");
  if (!element(op->getResult(0).getType()).isF32())
    return fail(op, "decodes to another type than f32");
  const IndexExpr &index = access.front();
  const unsigned level = index.level();
  Value codes = codesAt(state, index), magnitude = magnitudeAt(state, index);
  KernelBuilder &b = at(level);
  Value map = tableAddress(b, mapName(isSignedState(state)), stateMap(isSignedState(state)).values);
  Value numbers =
      lookUp(b, map, arith::ExtUIOp::create(b, KernelBuilder::shaped(codes.getType(), b.getI32Type()), codes));
  return {b.mul(numbers, b.splat(magnitude, lanesOf(numbers.getType()))), level};
}

void KernelEmitter::storeCodes(Value codes, Value base, const IndexExpr &index, unsigned level) {
  Value position = materialize(index);
  const IndexGuard guard = guardOf(index, level);
  KernelBuilder &b = at(level);
  Type code = b.getI8Type();
  Value address = b.address(recordsBefore(b, base, position), code, position);
  const int64_t lanes = lanesOf(codes.getType());
  auto put = [&](int64_t first, int64_t count) {
    b.store(lanesFrom(b, codes, first, count), b.address(address, code, b.i64(first)), codeAlignment(count));
  };
  auto when = [&](Value condition, llvm::function_ref<void()> then) {
    OpBuilder::InsertionGuard back(b);
    if (condition)
      b.setInsertionPointToStart(scf::IfOp::create(b, condition, /*withElseRegion=*/false).thenBlock());
    then();
  };
  const int64_t atOnce = codesAtOnce(b, lanes);
  when(guard.inside, [&] {
    for (int64_t first = 0; first < lanes; first += atOnce)
      put(first, atOnce);
  });
  if (!guard.bound || lanes == 1)
    return;
  when(arith::XOrIOp::create(b, guard.inside, b.integer(b.getI1Type(), 1)), [&] {
    for (int64_t lane = 0; lane < lanes; ++lane)
      when(b.compare(arith::CmpIPredicate::slt, b.add(guard.column, b.i64(lane)), guard.bound), [&] { put(lane, 1); });
  });
}

void KernelEmitter::storeMagnitude(Value magnitude, Value base, const IndexExpr &index, unsigned level, Value when) {
  Value position = materialize(index);
  KernelBuilder &b = at(level);
  OpBuilder::InsertionGuard back(b);
  if (when)
    b.setInsertionPointToStart(scf::IfOp::create(b, when, /*withElseRegion=*/false).thenBlock());
  b.store(magnitude, magnitudeAddress(b, base, position), kRecordAlignment);
}

} // namespace ztc::codegen
