// Buckets of any length on a GPU in flat blocks, and what is made of the blocks' sums.
#include "compiler/Codegen/MapToGpu.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "runtime/Format/BlockState.h"

using namespace mlir;

namespace ztc::codegen {

/// Lanes of the sum over a flat block, and over the blocks' sums.
static constexpr int64_t kFlatLanes = 1024;

LogicalResult DeviceForm::emitFlat() {
  Value length = scalar(0), member;
  e_.setFlatStart(scalar(1));
  int64_t columns = kernel_.columns.front().columns, chunk = vector_;
  LoopKey key = e_.keyOf(columns);
  if (plans_.scalar.contains(key))
    chunk = 1;
  int64_t team = std::min(kFlatLanes / chunk, kMaxBlockThreads), span = team * chunk;
  setBlock(team, 1);
  e_.setRowTeam(team);
  member = e_.member(team);
  const bool isDynamic = ShapedType::isDynamic(columns);
  KernelBuilder &b = e_.at(0);
  Value begin = b.mul(e_.block(), b.i64(kFlatBlock)), share = b.mul(member, b.i64(chunk));
  SmallVector<Value> sums(kernel_.sums.size(), e_.at(0).real(KernelBuilder::shaped(chunk, b.getF32Type()), 0.0));
  // Of blocks that are whole no thread looks where the range ends: nothing stands between a turn's loads.
  auto turns = [&](bool whole) {
    return [&, whole](unsigned level, Carried &carried) {
      auto turn = [&](const IndexSymbol *offset, unsigned inner, Carried &values) {
        KernelBuilder &b = e_.at(inner);
        IndexSymbol facts;
        facts.value = b.add(b.add(begin, offset->value), share);
        facts.maximum = isDynamic ? int64_t(1) << 40 : std::max<int64_t>(columns, chunk) - chunk;
        facts.divisor = chunk;
        facts.level = inner;
        facts.columnLoop = key;
        facts.sharedBy = 1;
        if (!whole)
          facts.guard = b.compare(arith::CmpIPredicate::sle, b.add(facts.value, b.i64(chunk)), length);
        if (!whole && chunk > 1 && (isDynamic || columns % chunk != 0))
          facts.bound = length;
        IndexExpr column(e_.makeSymbol(facts));
        return emitFlatChunk({e_.withLanes(column, chunk, key), chunk, 0, inner}, values);
      };
      return e_.forLoop(level, e_.at(level).i64(0), e_.at(level).i64(kFlatBlock), span, IndexSymbol(), carried, turn);
    };
  };
  Value isWhole = e_.at(0).compare(arith::CmpIPredicate::sle, b.add(begin, b.i64(kFlatBlock)), length);
  if (failed(!isDynamic && columns % kFlatBlock == 0
                 ? turns(/*whole=*/true)(0, sums)
                 : e_.either(0, isWhole, sums, turns(/*whole=*/true), turns(/*whole=*/false))))
    return failure();
  for (auto [value, sum] : llvm::zip(sums, kernel_.sums)) {
    Value total = e_.foldTeam(e_.foldNeighbours(e_.lanesAsScalars(value, 0), true, 0), team, /*sum=*/true, 0);
    IndexSymbol unit;
    unit.value = e_.block();
    unit.maximum = int64_t(1) << 40;
    e_.setStoreGuard(e_.at(0).compare(arith::CmpIPredicate::eq, member, e_.at(0).i64(0)));
    e_.store(total, workspace_, e_.at(0).getF32Type(),
             IndexExpr(e_.makeSymbol(unit)) * kernel_.sums.size() + sum.offset, 0, /*add=*/false);
  }
  return success();
}

LogicalResult DeviceForm::emitFlatChunk(const ColumnChunk &chunk, Carried &sums) {
  SmallVector<Value> none;
  int64_t unused = 0;
  const std::optional<SmallVector<BlockCodes>> blocks = blockCodes(chunk);
  if (!blocks || failed(emitChunk(kernel_.columns.front(), IndexExpr(), chunk, none, unused)))
    return failure();
  storeBlockCodes(chunk, *blocks);
  for (auto [total, sum] : llvm::zip(sums, kernel_.sums)) {
    Element x = e_.emit(sum.op->getOperand(0), chunk.column);
    if (!x)
      return failure();
    // What does not exist was read as zero, but need not be computed to zero.
    total = e_.at(chunk.level).add(total, existing(chunk, e_.squareOf(x, chunk)));
  }
  return success();
}

std::optional<SmallVector<DeviceForm::BlockCodes>> DeviceForm::blockCodes(const ColumnChunk &chunk) {
  SmallVector<BlockCodes> blocks;
  const unsigned level = chunk.level;
  const int64_t threads = kStateBlock / chunk.lanes;
  for (const PlannedEncode &planned : kernel_.encodes) {
    auto encode = cast<graph::EncodeBlocksOp>(planned.op);
    Element x = e_.emit(encode.getX(), chunk.column), proceed = e_.emit(encode.getProceed(), chunk.column);
    if (!x || !proceed)
      return std::nullopt;
    Value old = encode.getOld(), before = e_.codesAt(old, chunk.column);
    Value oldMagnitude = e_.magnitudeAt(old, chunk.column);
    Value numbers = e_.widen(x.value, chunk.lanes, level);
    Value magnitudes = existing(chunk, e_.at(level).absolute(numbers));
    Value own = e_.foldNeighbours(e_.lanesAsScalars(magnitudes, level), /*sum=*/false, level);
    Value magnitude = e_.foldTeam(own, threads, /*sum=*/false, level);
    KernelBuilder &b = e_.at(level);
    Value inverse = b.splat(inverseMagnitude(b, magnitude), chunk.lanes);
    Value codes = stateCodes(b, numbers, inverse, isSignedState(old));
    blocks.push_back({b.select(proceed.value, codes, before), b.select(proceed.value, magnitude, oldMagnitude)});
  }
  return blocks;
}

void DeviceForm::storeBlockCodes(const ColumnChunk &chunk, ArrayRef<BlockCodes> blocks) {
  if (blocks.empty())
    return;
  const IndexExpr column = chunk.column.withoutLane();
  Value position = e_.materialize(column), exists = e_.existsAt(chunk.column, chunk.level);
  KernelBuilder &b = e_.at(chunk.level);
  // States are updated in place: all threads of a block have read its magnitude before one of them writes it. Those of
  // several warps met at a barrier when the magnitudes were joined; shuffles put no accesses to memory in order.
  if (int64_t(kStateBlock) / chunk.lanes <= kWarp)
    NVVM::SyncWarpOp::create(b, b.integer(b.getI32Type(), -1));
  Value within = arith::AndIOp::create(b, position, b.i64(kStateBlock - 1));
  Value isFirst = b.compare(arith::CmpIPredicate::eq, within, b.i64(0));
  if (exists)
    isFirst = arith::AndIOp::create(b, isFirst, exists);
  for (auto [block, planned] : llvm::zip_equal(blocks, kernel_.encodes)) {
    Value base = results_.lookup(planned.result);
    e_.storeCodes(block.codes, base, column, chunk.level);
    e_.storeMagnitude(block.magnitude, base, column, chunk.level, isFirst);
  }
}

Value DeviceForm::existing(const ColumnChunk &chunk, Value value) {
  IndexGuard guard = e_.guardOf(chunk.column, chunk.level);
  if (!guard.inside)
    return value;
  KernelBuilder &b = e_.at(chunk.level);
  Value zero = b.real(value.getType(), 0.0);
  if (!guard.bound)
    return b.select(guard.inside, value, zero);
  auto lanes = VectorType::get({chunk.lanes}, b.getI64Type());
  SmallVector<int64_t> steps = llvm::to_vector(llvm::seq<int64_t>(0, chunk.lanes));
  Value numbers = arith::ConstantOp::create(b, lanes, DenseElementsAttr::get(lanes, ArrayRef(steps)));
  Value positions = b.add(b.splat(guard.column, chunk.lanes), numbers);
  Value exists = b.compare(arith::CmpIPredicate::slt, positions, b.splat(guard.bound, chunk.lanes));
  return b.select(exists, value, zero);
}

LogicalResult DeviceForm::emitOnce() {
  constexpr int64_t team = 256;
  setBlock(team, 1);
  e_.setRowTeam(team);
  bindSumFolds(team);
  SmallVector<Value> none;
  return emitRow(IndexExpr(), 0, none);
}

void DeviceForm::bindSumFolds(int64_t team) {
  Value length = scalar(0), member = e_.member(team);
  KernelBuilder &b = e_.at(0);
  Value blocks = arith::DivUIOp::create(b, b.add(length, b.i64(kFlatBlock - 1)), b.i64(kFlatBlock));
  int64_t stride = kernel_.folds.size();
  for (const PlannedPartial &fold : kernel_.folds)
    e_.override(fold.op->getResult(0), [this, fold, blocks, stride, member, team](ArrayRef<IndexExpr>) -> Element {
      Type f32 = e_.at(0).getF32Type();
      SmallVector<Value> sets(kFlatLanes / team, e_.at(0).real(f32, 0.0));
      LogicalResult done = e_.forLoop(0, e_.at(0).i64(0), blocks, kFlatLanes, IndexSymbol(), sets,
                                      [&](const IndexSymbol *turn, unsigned inner, Carried &values) {
                                        for (auto [number, total] : llvm::enumerate(values)) {
                                          KernelBuilder &b = e_.at(inner);
                                          IndexSymbol facts;
                                          facts.value = b.add(b.add(turn->value, b.i64(number * team)), member);
                                          facts.maximum = int64_t(1) << 40;
                                          facts.level = inner;
                                          facts.sharedBy = 1;
                                          facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, blocks);
                                          Element partial = e_.load(
                                              workspace_, f32, IndexExpr(e_.makeSymbol(facts)) * stride + fold.offset);
                                          KernelBuilder &in = e_.at(inner);
                                          total = in.add(total, partial.value);
                                        }
                                        return success();
                                      });
      if (failed(done))
        return {};
      SmallVector<Value> folded;
      for (Value set : sets)
        folded.push_back(e_.foldTeam(set, team, /*sum=*/true, 0));
      return {e_.foldNeighbours(folded, /*sum=*/true, 0), 0};
    });
}

} // namespace ztc::codegen
