// Sums of columns on a GPU: partial sums of blocks of rows, and their folds.
#include "compiler/Codegen/MapToGpu.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace ztc::codegen {

/// Parts of a block of rows that teams add up before they are joined, as ((0 + 1) + (2 + 3)).
static constexpr int64_t kSubBlocks = 4;
/// Partial results are folded in this many strands: strand g takes the partials g, g + 16, ...; then neighbours join.
static constexpr int64_t kStrands = 16;

/// Whether an operand is the scale of fp8 codes with its inverse: one number of a call, and no row of a register each.
static bool isScale(Value operand) {
  auto type = cast<RankedTensorType>(operand.getType());
  return type.getRank() == 1 && type.getDimSize(0) == 2;
}

int64_t DeviceForm::rowBlockTeams(int64_t team) {
  e_.setTeam(team);
  int64_t columns = 0, sums = 0;
  for (const ColumnGroup &group : kernel_.columns) {
    columns = std::max(columns, e_.chunkCount(group.columns) * e_.width(group.columns));
    sums += group.partials.size();
  }
  int64_t operands = llvm::count_if(kernel_.description.buffers, [this](const KernelBuffer &buffer) {
    return buffer.kind == KernelBuffer::Kind::Operand && !isScale(bodyOf(group_).getArgument(buffer.index));
  });
  constexpr int64_t file = 65536, other = 28; // registers of a multiprocessor; of a thread besides
  int64_t threads = std::min(file / (other + columns * (operands + sums + 1)), kMaxBlockThreads);
  return std::clamp<int64_t>(llvm::bit_floor(static_cast<uint64_t>(threads / team)), 1, kSubBlocks);
}

LogicalResult DeviceForm::emitRowBlocks() {
  const int64_t subBlockRows = kernel_.rowBlock / kSubBlocks;
  int64_t team = rowTeam(), teams = rowBlockTeams(team);
  int64_t unitThreads = team * teams, units = std::max<int64_t>(1, kBlockThreads / unitThreads);
  setBlock(unitThreads * units, units);
  e_.setRowTeam(team);
  const IndexSymbol *unit = unitSymbol(unitThreads, units);
  Value which = modulo(over(e_.thread(), team), teams);
  SmallVector<Value> zeros;
  for (const ColumnGroup &group : kernel_.columns)
    for (int64_t i = 0; i < e_.chunkCount(group.columns); ++i)
      for (const PlannedPartial &partial : group.partials)
        zeros.push_back(e_.at(0).real(KernelBuilder::shaped(e_.width(group.columns), elementOf(partial)), 0.0));
  SmallVector<SmallVector<Value>> sums;
  for (int64_t turn = 0; turn < kSubBlocks / teams; ++turn) {
    sums.push_back(zeros);
    KernelBuilder &b = e_.at(0);
    Value sub = b.add(b.mul(which, b.i64(kSubBlocks / teams)), b.i64(turn));
    Value first = b.add(b.mul(unit->value, b.i64(kernel_.rowBlock)), b.mul(sub, b.i64(subBlockRows)));
    if (failed(e_.forLoop(0, subBlockRows, sums.back(),
                          [&](const IndexSymbol *step, unsigned level, Carried &carried) -> LogicalResult {
                            KernelBuilder &b = e_.at(level);
                            IndexSymbol facts = *step;
                            facts.value = b.add(first, step->value);
                            facts.maximum = kernel_.rows - 1;
                            facts.sharedBy = team;
                            if (unit->guard || kernel_.rows % kernel_.rowBlock != 0)
                              facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(kernel_.rows));
                            e_.setColumnLevel(level);
                            IndexSymbol next;
                            next.value =
                                arith::MinSIOp::create(b, b.add(facts.value, b.i64(1)), b.i64(kernel_.rows - 1));
                            next.level = level;
                            next.maximum = kernel_.rows - 1;
                            next.sharedBy = team;
                            nextRow_ = IndexExpr(e_.makeSymbol(next));
                            return emitRow(IndexExpr(e_.makeSymbol(facts)), level, carried);
                          })))
      return failure();
    nextRow_.reset();
    e_.setColumnLevel(0);
  }
  KernelBuilder &b = e_.at(0);
  if (teams > 1)
    e_.setStoreGuard(b.compare(arith::CmpIPredicate::eq, which, b.i64(0)));
  size_t number = 0;
  for (const ColumnGroup &group : kernel_.columns) {
    if (group.partials.empty())
      continue;
    SmallVector<Value> none;
    e_.setUnrolled(true);
    if (failed(e_.forColumns(0, group.columns, nullptr, 1, none, [&](const ColumnChunk &chunk, Carried &) {
          for (const PlannedPartial &partial : group.partials) {
            SmallVector<Value> own;
            for (const auto &turn : sums)
              own.push_back(turn[number]);
            ++number;
            Value total = joinTeams(e_.foldNeighbours(own, /*sum=*/true, 0), team, teams);
            e_.store(total, workspace_, elementOf(partial),
                     partialIndex(partial, IndexExpr(unit), chunk.column.withoutLane()), 0,
                     /*add=*/false);
          }
          return success();
        })))
      return failure();
  }
  return success();
}

IndexExpr DeviceForm::partialIndex(const PlannedPartial &partial, const IndexExpr &block, const IndexExpr &column) {
  return block * partial.columns + column + partial.offset;
}

Value DeviceForm::joinTeams(Value value, int64_t team, int64_t teams, unsigned level) {
  if (teams == 1)
    return value;
  Type element = getElementTypeOrSelf(value.getType());
  int64_t lanes = lanesOf(value.getType()), bytes = launch_.blockThreads * lanes * storedBytes(element);
  int64_t alignment = std::min(lanes * storedBytes(element), kVectorBytes);
  Value number = e_.thread(), member = e_.member(team);
  e_.barrier(level);
  KernelBuilder &b = e_.at(level);
  Value own = e_.sharedAddress(bytes, element, b.mul(number, b.i64(lanes)), level);
  e_.at(level).store(value, own, alignment);
  e_.barrier(level);
  e_.at(level);
  Value first = arith::DivUIOp::create(b, number, b.i64(team * teams));
  first = b.add(b.mul(first, b.i64(team * teams)), member);
  SmallVector<Value> all;
  for (int64_t i = 0; i < teams; ++i) {
    e_.at(level);
    Value index = b.mul(b.add(first, b.i64(i * team)), b.i64(lanes));
    Value from = e_.sharedAddress(bytes, element, index, level);
    all.push_back(e_.at(level).load(from, element, lanes, alignment));
  }
  return e_.foldNeighbours(all, /*sum=*/true, level);
}

LogicalResult DeviceForm::emitColumnUnits() {
  const ColumnGroup &group = kernel_.columns.front();
  LoopKey key = e_.keyOf(group.columns);
  bool whole = kernel_.unit == group.columns;
  if (!whole && !plans_.splits[key].empty())
    plans_.scalar.insert(key); // a unit has no edges that its loop could be cut at
  int64_t chunk = e_.width(group.columns);
  int64_t team = std::min<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(kernel_.unit / chunk)), 64);
  setBlock(std::max(team * kStrands, kWarp), 1);
  e_.setRowTeam(team);
  Value strand = over(e_.thread(), team);
  strands_ = kStrands;
  bindColumnFolds();
  e_.setStoreGuard(e_.at(0).compare(arith::CmpIPredicate::eq, strand, e_.at(0).i64(0)));
  SmallVector<Value> none;
  int64_t sum = 0;
  if (whole)
    return emitColumns(group, IndexExpr(), 0, none, sum);
  Value member = e_.member(team), block = e_.block();
  KernelBuilder &b = e_.at(0);
  IndexSymbol facts;
  facts.value = b.add(b.mul(block, b.i64(kernel_.unit)), b.mul(member, b.i64(chunk)));
  facts.maximum = group.columns - chunk;
  facts.divisor = chunk;
  facts.columnLoop = key;
  facts.sharedBy = 1;
  IndexExpr column(e_.makeSymbol(facts));
  return emitChunk(group, IndexExpr(), {e_.withLanes(column, chunk, key), chunk, 0, 0}, none, sum);
}

void DeviceForm::bindColumnFolds() {
  for (const PlannedPartial &fold : kernel_.folds)
    e_.override(fold.op->getResult(0), [this, fold](ArrayRef<IndexExpr> access) -> Element {
      unsigned level = levelOf(access);
      const IndexSymbol *lane = laneOf(access);
      Type stored = elementOf(fold);
      Value zero = e_.at(level).real(KernelBuilder::shaped(lane ? lane->maximum + 1 : 1, stored), 0.0);
      auto addPartial = [&](const IndexSymbol *block, unsigned inner, Value &total) {
        Element partial = e_.load(workspace_, stored, partialIndex(fold, IndexExpr(block), access.back()));
        KernelBuilder &b = e_.at(inner);
        Value joined = e_.combine(b, total, partial.value, /*sum=*/true);
        total = block->guard ? b.select(block->guard, joined, total) : joined;
      };
      auto rounded = [&](Value total) -> Element {
        return {e_.at(level).convertReal(total, e_.element(fold.op->getResult(0).getType())), level};
      };
      if (strands_ > 1) {
        SmallVector<Value> total{zero};
        Value first = over(e_.thread(), e_.team());
        IndexSymbol facts;
        facts.maximum = fold.blocks - 1;
        facts.sharedBy = e_.team();
        Value end = e_.at(level).i64(fold.blocks);
        if (failed(e_.forLoop(level, first, end, kStrands, facts, total,
                              [&](const IndexSymbol *block, unsigned inner, Carried &values) {
                                addPartial(block, inner, values[0]);
                                return success();
                              })))
          return {};
        return rounded(joinTeams(total[0], e_.team(), kStrands, level));
      }
      SmallVector<Value> strands(kStrands, zero);
      if (failed(e_.forLoop(level, llvm::divideCeil(fold.blocks, kStrands), strands,
                            [&](const IndexSymbol *turn, unsigned inner, Carried &values) {
                              for (int64_t i = 0; i < kStrands; ++i) {
                                KernelBuilder &b = e_.at(inner);
                                IndexSymbol facts = *turn;
                                facts.value = b.add(b.mul(turn->value, b.i64(kStrands)), b.i64(i));
                                facts.maximum = fold.blocks - 1;
                                if (fold.blocks % kStrands != 0)
                                  facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(fold.blocks));
                                addPartial(e_.makeSymbol(facts), inner, values[i]);
                              }
                              return success();
                            })))
        return {};
      return rounded(e_.foldNeighbours(strands, /*sum=*/true, level));
    });
}

} // namespace ztc::codegen
