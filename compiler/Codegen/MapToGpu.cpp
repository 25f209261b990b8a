// The forms of kernels on a GPU: which threads of which block compute which elements. What an element is, KernelEmitter
// knows. Parameters of a kernel: a pointer per buffer, the scalars of its launch, its extent.
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Codegen/KernelState.h"
#include "llvm/ADT/bit.h"
#include <numeric>

using namespace mlir;

namespace ztc::codegen {

namespace {
/// Threads of a block where a row does not want more.
constexpr int64_t kBlockThreads = 128;
/// Rows that one team adds up before teams are joined; kRowBlock rows have their sum as ((0 + 1) + (2 + 3)).
constexpr int64_t kSubBlocks = 4, kSubBlockRows = kRowBlock / kSubBlocks;
/// Partial results are folded in this many strands: strand g takes the partials g, g + 16, ...; then neighbours join.
constexpr int64_t kStrands = 16;
/// Lanes of the sum over a flat block, and over the blocks' sums.
constexpr int64_t kFlatLanes = 1024;

/// Elements that fill the widest load: by the narrowest float of the group.
int64_t vectorElements(graph::FusionOp group) {
  int64_t bytes = 4;
  auto look = [&](Type type) {
    if (isa<FloatType>(getElementTypeOrSelf(type)))
      bytes = std::min(bytes, storedBytes(getElementTypeOrSelf(type)));
  };
  llvm::for_each(group->getRegion(0).front().getArgumentTypes(), look);
  llvm::for_each(group->getResultTypes(), look);
  return kVectorBytes / bytes;
}

/// One attempt at one kernel.
class DeviceForm {
public:
  DeviceForm(KernelBuilder &builder, func::FuncOp function, graph::FusionOp group, const PlannedKernel &kernel,
             ColumnPlans &plans, bool add)
      : function_(function), group_(group), kernel_(kernel), plans_(plans), add_(add), vector_(vectorElements(group)),
        e_(builder, plans, function, vector_) {}

  LogicalResult run() {
    bindBuffers();
    switch (kernel_.shape) {
    case PlannedKernel::Shape::Rows:
      return emitRows();
    case PlannedKernel::Shape::RowBlocks:
      return emitRowBlocks();
    case PlannedKernel::Shape::Columns:
      return emitColumnUnits();
    case PlannedKernel::Shape::Flat:
      return emitFlat();
    case PlannedKernel::Shape::Once:
      return emitOnce();
    }
    return failure();
  }

  bool wantsRestart() const { return e_.wantsRestart(); }
  /// After a successful run.
  DeviceLaunch finish() {
    e_.finish();
    launch_.sharedBytes = e_.sharedBytes();
    return launch_;
  }

private:
  using Carried = KernelEmitter::Carried;

  void bindBuffers() {
    Block &body = group_->getRegion(0).front();
    for (auto [number, buffer] : llvm::enumerate(kernel_.description.buffers)) {
      Value base = function_.getArgument(number);
      if (buffer.kind == KernelBuffer::Kind::Operand)
        e_.bind(body.getArgument(buffer.index), base);
      else if (buffer.kind == KernelBuffer::Kind::Result)
        results_[buffer.index] = base;
      else
        workspace_ = base;
    }
  }

  Value scalar(unsigned number) { return function_.getArgument(kernel_.description.buffers.size() + number); }

  void setBlock(int64_t threads, int64_t units) {
    launch_.blockThreads = threads;
    launch_.unitsPerBlock = units;
    e_.setBlockThreads(threads);
  }

  /// Threads that a row of the kernel keeps busy: in its widest result, partial result or reduction.
  int64_t rowTeam() {
    int64_t threads = 1;
    for (const ColumnGroup &group : kernel_.columns)
      threads = std::max(threads, e_.teamOf(group.columns));
    for (Operation &op : group_->getRegion(0).front()) {
      auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
      if (!axes || op.getNumOperands() != 1)
        continue;
      auto source = cast<RankedTensorType>(op.getOperand(0).getType());
      if (source.hasStaticShape() && llvm::is_contained(axes.asArrayRef(), source.getRank() - 1))
        threads = std::max(threads, e_.teamOf(source.getShape().back()));
    }
    return threads;
  }

  /// The quotient of a thread's or block's number: i64, of level 0.
  Value over(Value number, int64_t divisor) {
    KernelBuilder &b = e_.at(0);
    return divisor == 1 ? number : arith::DivUIOp::create(b, number, b.i64(divisor)).getResult();
  }
  Value modulo(Value number, int64_t divisor) {
    KernelBuilder &b = e_.at(0);
    return arith::RemUIOp::create(b, number, b.i64(divisor));
  }

  /// The unit of this thread, where `threads` neighbours share one and a block has `units`.
  const IndexSymbol *unitSymbol(int64_t threads, int64_t units) {
    Value block = e_.block(), within = over(e_.thread(), threads);
    KernelBuilder &b = e_.at(0);
    int64_t extent = kernel_.description.extent;
    IndexSymbol facts;
    facts.value = units == 1 ? block : b.add(b.mul(block, b.i64(units)), within);
    facts.maximum = extent - 1;
    facts.sharedBy = threads;
    if (extent % units != 0)
      facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(extent));
    return e_.makeSymbol(facts);
  }

  LogicalResult emitRows() {
    int64_t team = rowTeam(), threads = std::max(team, kBlockThreads);
    setBlock(threads, threads / team);
    e_.setRowTeam(team);
    bindColumnFolds();
    SmallVector<Value> none;
    return emitRow(IndexExpr(unitSymbol(team, threads / team)), 0, none);
  }

  /// Whether an op of the group adds up its operand's last dimension.
  bool reducesRows() {
    return llvm::any_of(group_->getRegion(0).front(), [](Operation &op) {
      auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
      auto source = axes ? dyn_cast<RankedTensorType>(op.getOperand(0).getType()) : RankedTensorType();
      return source && llvm::is_contained(axes.asArrayRef(), source.getRank() - 1);
    });
  }

  /// Loads the row's operands, where they stay in registers: a reduction's barriers would let one wait for the other.
  LogicalResult loadAhead(const ColumnGroup &group, const IndexExpr &row, unsigned level) {
    if (group.subRows != 1 || !reducesRows() || e_.chunkCount(group.columns) > kUnrolledTurns)
      return success();
    bool once = kernel_.shape == PlannedKernel::Shape::Rows; // a thread has one row: what they share too
    int64_t rows = once ? kernel_.description.extent : kernel_.rows;
    SmallVector<Value> none;
    return e_.forColumns(level, group.columns, nullptr, 1, none, [&](const ColumnChunk &chunk, Carried &) {
      for (const KernelBuffer &buffer : kernel_.description.buffers) {
        if (buffer.kind != KernelBuffer::Kind::Operand)
          continue;
        Value operand = group_->getRegion(0).front().getArgument(buffer.index);
        auto type = cast<RankedTensorType>(operand.getType());
        if (!type.hasStaticShape() || type.getRank() == 0 || type.getShape().back() != group.columns ||
            (type.getNumElements() != rows * group.columns && !(once && type.getNumElements() == group.columns)))
          continue;
        std::optional<Access> access = e_.accessOf(type.getShape(), row, chunk.column);
        if (!access || !e_.emit(operand, *access))
          return failure();
      }
      return success();
    });
  }

  /// The results of one row; the operands of partial results are added to `carried`, chunk by chunk.
  LogicalResult emitRow(const IndexExpr &row, unsigned level, Carried &carried) {
    int64_t team = e_.team(), first = 0;
    for (const ColumnGroup &group : kernel_.columns) {
      LogicalResult done = success();
      e_.setUnrolled(!group.partials.empty());
      if (failed(loadAhead(group, row, level)))
        return failure();
      if (group.subRows == 1) {
        done = emitColumns(group, row, level, carried, first);
      } else {
        // Several rows of the result at once, if one does not keep the team busy. Column sums stay with their thread.
        int64_t share = group.partials.empty() ? std::min(team, e_.teamOf(group.columns)) : team;
        int64_t together = team / share;
        e_.setTeam(share);
        Value number = e_.member(team);
        done = e_.forLoop(level, llvm::divideCeil(group.subRows, together), carried,
                          [&](const IndexSymbol *turn, unsigned inner, Carried &values) -> LogicalResult {
                            IndexSymbol facts = *turn;
                            KernelBuilder &b = e_.at(inner);
                            if (together > 1) {
                              Value which = arith::DivUIOp::create(b, number, b.i64(share));
                              facts.value = b.add(b.mul(turn->value, b.i64(together)), which);
                            }
                            facts.maximum = group.subRows - 1;
                            facts.sharedBy = share;
                            if (group.subRows % together != 0)
                              facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(group.subRows));
                            IndexExpr sub(e_.makeSymbol(facts));
                            return emitColumns(group, row * group.subRows + sub, inner, values, first);
                          });
        e_.setTeam(team);
      }
      if (failed(done))
        return failure();
      first += group.partials.size() * e_.chunkCount(group.columns);
    }
    return success();
  }

  LogicalResult emitColumns(const ColumnGroup &group, const IndexExpr &row, unsigned level, Carried &carried,
                            int64_t firstSum) {
    int64_t sum = firstSum;
    return e_.forColumns(level, group.columns, nullptr, 1, carried, [&](const ColumnChunk &chunk, Carried &values) {
      return emitChunk(group, row, chunk, values, sum);
    });
  }

  /// All elements of a chunk first, then the stores: a result of a flat kernel may stand where an operand stood.
  LogicalResult emitChunk(const ColumnGroup &group, const IndexExpr &row, const ColumnChunk &chunk, Carried &carried,
                          int64_t &sum) {
    std::optional<SmallVector<Value>> values = e_.emitChunk(group.elements(), row, chunk);
    if (!values)
      return failure();
    IndexExpr column = chunk.column.withoutLane(), position = row * group.columns + column;
    for (auto [value, output] : llvm::zip(*values, group.outputs)) {
      std::optional<IndexExpr> place = positionOf(e_, output, row, column);
      if (!place)
        return failure();
      e_.store(value, results_.lookup(output.result), e_.element(output.value.getType()), *place, chunk.level, add_);
    }
    IndexGuard guard = e_.guardOf(position, chunk.level);
    for (Value value : ArrayRef(*values).drop_front(group.outputs.size())) {
      KernelBuilder &b = e_.at(chunk.level);
      Value &total = carried[sum++];
      Value joined = e_.combine(b, total, value, /*sum=*/true);
      total = guard.inside ? b.select(guard.inside, joined, total) : joined;
    }
    return success();
  }

  Type elementOf(const PlannedPartial &partial) { return registerType(e_.element(partial.op->getResult(0).getType())); }

  /// Teams of a block of rows: as many as their registers allow. A thread keeps its columns of each operand, of the
  /// sums and of a value or two between the passes over a row.
  int64_t rowBlockTeams(int64_t team) {
    e_.setTeam(team);
    int64_t columns = 0, sums = 0;
    for (const ColumnGroup &group : kernel_.columns) {
      columns = std::max(columns, e_.chunkCount(group.columns) * e_.width(group.columns));
      sums += group.partials.size();
    }
    int64_t operands = llvm::count_if(kernel_.description.buffers, [](const KernelBuffer &buffer) {
      return buffer.kind == KernelBuffer::Kind::Operand;
    });
    constexpr int64_t file = 65536, other = 28; // registers of a multiprocessor; of a thread besides
    int64_t threads = std::min(file / (other + columns * (operands + sums + 1)), kMaxBlockThreads);
    return std::clamp<int64_t>(llvm::bit_floor(static_cast<uint64_t>(threads / team)), 1, kSubBlocks);
  }

  /// Teams take their sub-blocks of rows with the columns' sums in registers; shared memory joins the teams.
  LogicalResult emitRowBlocks() {
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
      Value first = b.add(b.mul(unit->value, b.i64(kRowBlock)), b.mul(sub, b.i64(kSubBlockRows)));
      if (failed(e_.forLoop(0, kSubBlockRows, sums.back(),
                            [&](const IndexSymbol *step, unsigned level, Carried &carried) -> LogicalResult {
                              KernelBuilder &b = e_.at(level);
                              IndexSymbol facts = *step;
                              facts.value = b.add(first, step->value);
                              facts.maximum = kernel_.rows - 1;
                              facts.sharedBy = team;
                              if (unit->guard || kernel_.rows % kRowBlock != 0)
                                facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(kernel_.rows));
                              e_.setColumnLevel(level);
                              return emitRow(IndexExpr(e_.makeSymbol(facts)), level, carried);
                            })))
        return failure();
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

  static IndexExpr partialIndex(const PlannedPartial &partial, const IndexExpr &block, const IndexExpr &column) {
    return block * partial.columns + column + partial.offset;
  }

  /// Values of the same member in `teams` neighbouring teams, joined; every thread gets the result.
  Value joinTeams(Value value, int64_t team, int64_t teams, unsigned level = 0) {
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

  /// A unit of columns is shared by one team for each strand of the fold.
  LogicalResult emitColumnUnits() {
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

  /// A column reduction is, from here on, the sum of its partial results: in strands, which teams share or a thread
  /// takes one by one.
  void bindColumnFolds() {
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

  LogicalResult emitFlat() {
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

  LogicalResult emitFlatChunk(const ColumnChunk &chunk, Carried &sums) {
    SmallVector<Value> none;
    int64_t unused = 0;
    if (failed(emitChunk(kernel_.columns.front(), IndexExpr(), chunk, none, unused)))
      return failure();
    for (auto [total, sum] : llvm::zip(sums, kernel_.sums)) {
      Element x = e_.emit(sum.op->getOperand(0), chunk.column);
      if (!x)
        return failure();
      Value wide = e_.widen(x.value, chunk.lanes, chunk.level);
      KernelBuilder &b = e_.at(chunk.level);
      wide = b.convertReal(wide, b.getF32Type());
      // What does not exist was read as zero, but need not be computed to zero.
      total = b.add(total, existing(chunk, b.mul(wide, wide)));
    }
    return success();
  }

  /// `value` with zero in the lanes that do not exist.
  Value existing(const ColumnChunk &chunk, Value value) {
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

  /// One block; the sums of the flat blocks go over its threads.
  LogicalResult emitOnce() {
    constexpr int64_t team = 256;
    setBlock(team, 1);
    e_.setRowTeam(team);
    bindSumFolds(team);
    SmallVector<Value> none;
    return emitRow(IndexExpr(), 0, none);
  }

  void bindSumFolds(int64_t team) {
    Value length = scalar(0), member = e_.member(team);
    KernelBuilder &b = e_.at(0);
    Value blocks = arith::DivUIOp::create(b, b.add(length, b.i64(kFlatBlock - 1)), b.i64(kFlatBlock));
    int64_t stride = kernel_.folds.size();
    for (const PlannedPartial &fold : kernel_.folds)
      e_.override(fold.op->getResult(0), [this, fold, blocks, stride, member, team](ArrayRef<IndexExpr>) -> Element {
        Type f32 = e_.at(0).getF32Type();
        SmallVector<Value> sets(kFlatLanes / team, e_.at(0).real(f32, 0.0));
        LogicalResult done =
            e_.forLoop(0, e_.at(0).i64(0), blocks, kFlatLanes, IndexSymbol(), sets,
                       [&](const IndexSymbol *turn, unsigned inner, Carried &values) {
                         for (auto [number, total] : llvm::enumerate(values)) {
                           KernelBuilder &b = e_.at(inner);
                           IndexSymbol facts;
                           facts.value = b.add(b.add(turn->value, b.i64(number * team)), member);
                           facts.maximum = int64_t(1) << 40;
                           facts.level = inner;
                           facts.sharedBy = 1;
                           facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, blocks);
                           Element partial =
                               e_.load(workspace_, f32, IndexExpr(e_.makeSymbol(facts)) * stride + fold.offset);
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

  func::FuncOp function_;
  graph::FusionOp group_;
  const PlannedKernel &kernel_;
  ColumnPlans &plans_;
  bool add_;
  int64_t vector_, strands_ = 1;
  DeviceEmitter e_;
  DeviceLaunch launch_;
  DenseMap<unsigned, Value> results_;
  Value workspace_;
};
} // namespace

FailureOr<DeviceLaunch> emitDeviceKernel(KernelModule::State &state, graph::FusionOp group, const PlannedKernel &kernel,
                                         StringRef name, bool add) {
  DeviceLaunch launch;
  auto attempt = [&](ColumnPlans &plans, bool &restart) -> LogicalResult {
    KernelBuilder builder = state.builder();
    const KernelDescription &d = kernel.description;
    func::FuncOp function = state.createDeviceKernel(builder, name, d.buffers.size(), d.flat ? 2 : d.scalars.size());
    DeviceForm form(builder, function, group, kernel, plans, add);
    if (succeeded(form.run())) {
      KernelModule::State::finishKernel(builder, function);
      launch = form.finish();
      KernelModule::State::setLaunch(function, launch);
      return success();
    }
    function.erase();
    restart = form.wantsRestart();
    return failure();
  };
  if (failed(untilColumnsSuit(group, attempt)))
    return failure();
  return launch;
}

} // namespace ztc::codegen
