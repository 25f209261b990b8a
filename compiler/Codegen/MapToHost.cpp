// The forms of kernels on a processor: the loops around the elements that KernelEmitter gives.
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Codegen/KernelForms.h"
#include "compiler/Codegen/KernelState.h"
#include "runtime/Format/BlockState.h"

using namespace mlir;

namespace ztc::codegen {

namespace {
/// One attempt at one kernel.
class HostForm {
public:
  HostForm(KernelBuilder &builder, func::FuncOp function, Operation *group, const PlannedKernel &kernel,
           ColumnPlans &plans, bool add)
      : function_(function), group_(group), kernel_(kernel), plans_(plans), add_(add), e_(builder, plans) {}

  LogicalResult run() {
    bindBuffers();
    switch (kernel_.shape) {
    case PlannedKernel::Shape::Rows:
      bindColumnFolds();
      return overUnits([&](const IndexSymbol *row, unsigned level) { return emitRow(IndexExpr(row), nullptr, level); });
    case PlannedKernel::Shape::RowBlocks:
      return overUnits([&](const IndexSymbol *block, unsigned level) { return emitRowBlock(block, level); });
    case PlannedKernel::Shape::Columns:
      bindColumnFolds();
      return overUnits([&](const IndexSymbol *unit, unsigned level) { return emitColumnUnit(unit, level); });
    case PlannedKernel::Shape::Flat:
      return emitFlat();
    case PlannedKernel::Shape::Once:
      bindSumFolds();
      return overUnits([&](const IndexSymbol *, unsigned level) { return emitRow(IndexExpr(), nullptr, level); });
    }
    return failure();
  }

  bool wantsRestart() const { return e_.wantsRestart(); }

private:
  using Carried = KernelEmitter::Carried;

  Value argument(unsigned number) { return function_.getArgument(number); }

  void bindBuffers() {
    Block &body = bodyOf(group_);
    KernelBuilder &b = e_.at(0);
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    for (auto [number, buffer] : llvm::enumerate(kernel_.description.buffers)) {
      Value address =
          LLVM::GEPOp::create(b, pointer, pointer, argument(0), ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
      Value base = LLVM::LoadOp::create(b, pointer, address, 8);
      if (buffer.kind == KernelBuffer::Kind::Operand)
        e_.bind(body.getArgument(buffer.index), base);
      else if (buffer.kind == KernelBuffer::Kind::Result)
        results_[buffer.index] = base;
      else
        workspace_ = base;
    }
  }

  Value scalar(unsigned number) {
    KernelBuilder &b = e_.at(0);
    return b.load(b.address(argument(1), b.getI64Type(), b.i64(number)), b.getI64Type(), 1);
  }

  LogicalResult overUnits(llvm::function_ref<LogicalResult(const IndexSymbol *, unsigned)> body) {
    SmallVector<Value> none;
    IndexSymbol facts;
    // A flat extent is known at run time only; nothing is multiplied with it that could overflow.
    facts.maximum = kernel_.description.extent ? kernel_.description.extent - 1 : (int64_t(1) << 40);
    return e_.forLoop(0, argument(2), argument(3), 1, facts, none,
                      [&](const IndexSymbol *unit, unsigned level, Carried &) { return body(unit, level); });
  }

  LogicalResult emitRow(const IndexExpr &row, const IndexSymbol *block, unsigned level) {
    for (const ColumnGroup &group : kernel_.columns) {
      SmallVector<Value> none;
      LogicalResult done = success();
      if (group.subRows == 1) {
        done = emitColumns(group, row, block, level);
      } else {
        done = e_.forLoop(level, group.subRows, none, [&](const IndexSymbol *sub, unsigned inner, Carried &) {
          return emitColumns(group, row * group.subRows + IndexExpr(sub), block, inner);
        });
      }
      if (failed(done))
        return failure();
    }
    return success();
  }

  LogicalResult emitColumns(const ColumnGroup &group, const IndexExpr &row, const IndexSymbol *block, unsigned level) {
    SmallVector<Value> none;
    return e_.forColumns(level, group.columns, &group, kChunk, none,
                         [&](const ColumnChunk &chunk, Carried &) { return emitChunk(group, row, block, chunk); });
  }

  /// All elements of a chunk first, then the stores: a result may stand where an operand stood.
  LogicalResult emitChunk(const ColumnGroup &group, const IndexExpr &row, const IndexSymbol *block,
                          const ColumnChunk &chunk) {
    std::optional<SmallVector<Value>> values = e_.emitChunk(group.elements(), row, chunk);
    if (!values)
      return failure();
    IndexExpr column = chunk.column.withoutLane();
    for (auto [value, output] : llvm::zip(*values, group.outputs)) {
      std::optional<IndexExpr> position = positionOf(e_, output, row, column);
      if (!position)
        return failure();
      e_.store(value, results_.lookup(output.result), e_.element(output.value.getType()), *position, chunk.level, add_);
    }
    for (auto [value, partial] : llvm::zip(ArrayRef(*values).drop_front(group.outputs.size()), group.partials))
      e_.store(value, workspace_, elementOf(partial), partialIndex(partial, IndexExpr(block), column), chunk.level,
               /*add=*/true);
    return success();
  }

  static IndexExpr partialIndex(const PlannedPartial &partial, const IndexExpr &block, const IndexExpr &column) {
    return block * partial.columns + column + partial.offset;
  }

  LogicalResult emitRowBlock(const IndexSymbol *block, unsigned level) {
    SmallVector<Value> none;
    for (const ColumnGroup &group : kernel_.columns)
      for (const PlannedPartial &partial : group.partials) {
        LogicalResult cleared =
            e_.forColumns(level, partial.columns, &partial, kChunk, none, [&](const ColumnChunk &chunk, Carried &) {
              Value zero = e_.at(chunk.level).real(KernelBuilder::shaped(chunk.lanes, elementOf(partial)), 0.0);
              e_.store(zero, workspace_, elementOf(partial),
                       partialIndex(partial, IndexExpr(block), chunk.column.withoutLane()), chunk.level, /*add=*/false);
              return success();
            });
        if (failed(cleared))
          return failure();
      }
    KernelBuilder &b = e_.at(level);
    Value begin = b.mul(block->value, b.i64(kernel_.rowBlock));
    Value end = b.minimum(b.add(begin, b.i64(kernel_.rowBlock)), b.i64(kernel_.rows));
    IndexSymbol facts;
    facts.maximum = kernel_.rows - 1;
    return e_.forLoop(level, begin, end, 1, facts, none, [&](const IndexSymbol *row, unsigned inner, Carried &) {
      return emitRow(IndexExpr(row), block, inner);
    });
  }

  /// Partial results of narrow sums are f32.
  Type elementOf(const PlannedPartial &partial) { return registerType(e_.element(partial.op->getResult(0).getType())); }

  LogicalResult emitColumnUnit(const IndexSymbol *unit, unsigned level) {
    const ColumnGroup &group = kernel_.columns.front();
    if (kernel_.unit == group.columns)
      return emitColumns(group, IndexExpr(), nullptr, level);
    SmallVector<Value> none;
    return e_.forColumns(level, kernel_.unit, &group, kChunk, none, [&](const ColumnChunk &chunk, Carried &) {
      ColumnChunk moved = chunk;
      moved.column = chunk.column + IndexExpr(unit) * kernel_.unit;
      return emitChunk(group, IndexExpr(), nullptr, moved);
    });
  }

  /// A column reduction is, from here on, the sum of its partial results in the order of the blocks.
  void bindColumnFolds() {
    for (const PlannedPartial &fold : kernel_.folds)
      e_.override(fold.op->getResult(0), [this, fold](ArrayRef<IndexExpr> access) -> Element {
        unsigned level = levelOf(access);
        const IndexSymbol *lane = laneOf(access);
        Type stored = elementOf(fold);
        Type type = KernelBuilder::shaped(lane ? lane->maximum + 1 : 1, stored);
        SmallVector<Value> total{e_.at(level).real(type, 0.0)};
        LogicalResult done =
            e_.forLoop(level, fold.blocks, total, [&](const IndexSymbol *block, unsigned inner, Carried &values) {
              Element partial = e_.load(workspace_, stored, partialIndex(fold, IndexExpr(block), access.back()));
              values[0] = e_.combine(e_.at(inner), values[0], partial.value, /*sum=*/true);
              return success();
            });
        if (failed(done))
          return {};
        return {e_.at(level).convertReal(total[0], e_.element(fold.op->getResult(0).getType())), level};
      });
  }

  LogicalResult emitFlat() {
    Value length = scalar(0), start = scalar(1);
    e_.setFlatStart(start);
    if (!kernel_.encodes.empty())
      return emitRecords(length);
    SmallVector<Value> sumLanes;
    for (size_t i = 0; i < kernel_.sums.size(); ++i)
      sumLanes.push_back(e_.stack(e_.at(0).getF32Type(), kVirtualLanes));
    return overUnits([&](const IndexSymbol *block, unsigned level) -> LogicalResult {
      KernelBuilder &b = e_.at(level);
      Value begin = b.mul(block->value, b.i64(kFlatBlock));
      Value end = b.minimum(b.add(begin, b.i64(kFlatBlock)), length);
      int64_t stride = kernel_.sums.empty() ? kChunk : kVirtualLanes;
      Value whole = arith::AndIOp::create(b, end, b.i64(-stride)); // blocks begin at multiples of the stride
      IndexSymbol facts;
      int64_t columns = kernel_.columns.front().columns;
      facts.maximum = (ShapedType::isDynamic(columns) ? int64_t(1) << 40 : std::max<int64_t>(columns, stride)) - stride;
      facts.divisor = stride;
      facts.columnLoop = &kernel_;
      Type quarter = KernelBuilder::shaped(kChunk, b.getF32Type());
      SmallVector<Value> quarters(kernel_.sums.size() * (kVirtualLanes / kChunk), b.real(quarter, 0.0));
      if (plans_.scalar.contains(&kernel_))
        whole = begin;
      else if (failed(e_.forLoop(level, begin, whole, stride, facts, quarters,
                                 [&](const IndexSymbol *column, unsigned inner, Carried &values) {
                                   for (int64_t offset = 0; offset < stride; offset += kChunk)
                                     if (failed(
                                             emitFlatChunk({e_.withLanes(IndexExpr(column) + offset, kChunk, &kernel_),
                                                            kChunk, offset, inner},
                                                           values, {})))
                                       return failure();
                                   return success();
                                 })))
        return failure();
      return emitFlatTail(block, level, whole, end, quarters, sumLanes);
    });
  }

  /// Block by block of 256 elements: all results that are stored as they are, and the numbers to be encoded, kept on
  /// the stack with their largest magnitude; then the codes.
  LogicalResult emitRecords(Value length) {
    SmallVector<Value> numbers;
    for (size_t i = 0; i < kernel_.encodes.size(); ++i)
      numbers.push_back(e_.stack(e_.at(0).getF32Type(), kStateBlock));
    return overUnits([&](const IndexSymbol *block, unsigned level) {
      KernelBuilder &b = e_.at(level);
      Value begin = b.mul(block->value, b.i64(kFlatBlock));
      Value end = b.minimum(b.add(begin, b.i64(kFlatBlock)), length);
      IndexSymbol facts = flatFacts(kStateBlock);
      SmallVector<Value> none;
      return e_.forLoop(level, begin, end, kStateBlock, facts, none,
                        [&](const IndexSymbol *record, unsigned inner, Carried &) {
                          return emitRecord(record, inner, end, numbers);
                        });
    });
  }

  /// What is known of a flat index that goes in steps of `stride`.
  IndexSymbol flatFacts(int64_t stride) {
    const int64_t columns = kernel_.columns.front().columns;
    IndexSymbol facts;
    facts.maximum = ShapedType::isDynamic(columns) ? int64_t(1) << 40 : std::max<int64_t>(columns, stride);
    facts.divisor = stride;
    facts.columnLoop = &kernel_;
    return facts;
  }

  LogicalResult emitRecord(const IndexSymbol *record, unsigned level, Value end, ArrayRef<Value> numbers) {
    KernelBuilder &b = e_.at(level);
    Type f32 = b.getF32Type(), vector = KernelBuilder::shaped(kChunk, f32);
    Value limit = b.minimum(b.add(record->value, b.i64(kStateBlock)), end);
    Value whole = arith::AndIOp::create(b, limit, b.i64(-kChunk));
    // What lies past the bucket's end counts as zero.
    for (Value of : numbers)
      for (int64_t offset = 0; offset < int64_t(kStateBlock); offset += kChunk)
        b.store(b.real(vector, 0.0), b.address(of, f32, b.i64(offset)));
    SmallVector<Value> largest(numbers.size(), b.real(vector, 0.0)), single(numbers.size(), b.real(f32, 0.0));
    if (plans_.scalar.contains(&kernel_))
      whole = record->value;
    else if (failed(e_.forLoop(level, record->value, whole, kChunk, flatFacts(kChunk), largest,
                               [&](const IndexSymbol *column, unsigned inner, Carried &values) {
                                 return emitNumbers(
                                     {e_.withLanes(IndexExpr(column), kChunk, &kernel_), kChunk, 0, inner}, numbers,
                                     values);
                               })))
      return failure();
    if (failed(e_.forLoop(level, whole, limit, 1, flatFacts(1), single,
                          [&](const IndexSymbol *column, unsigned inner, Carried &values) {
                            return emitNumbers({IndexExpr(column), 1, 0, inner}, numbers, values);
                          })))
      return failure();
    for (auto [i, encode] : llvm::enumerate(kernel_.encodes)) {
      Value none = e_.at(level).real(vector, 0.0);
      Value folded = e_.fold({largest[i], none, none, none}, /*sum=*/false, level);
      Value magnitude = e_.combine(e_.at(level), folded, single[i], /*sum=*/false);
      if (failed(emitCodes(encode, record, level, numbers[i], magnitude)))
        return failure();
    }
    return success();
  }

  /// The results of a chunk, and into `numbers` what is to be encoded, whose magnitudes join `largest`.
  LogicalResult emitNumbers(const ColumnChunk &chunk, ArrayRef<Value> numbers, Carried &largest) {
    SmallVector<Value> encoded;
    for (const PlannedEncode &encode : kernel_.encodes)
      encoded.push_back(cast<graph::EncodeBlocksOp>(encode.op).getX());
    std::optional<SmallVector<Value>> values = e_.emitChunk(encoded, IndexExpr(), chunk);
    if (!values || failed(emitChunk(kernel_.columns.front(), IndexExpr(), nullptr, chunk)))
      return failure();
    Value position = e_.materialize(chunk.column.withoutLane());
    KernelBuilder &b = e_.at(chunk.level);
    Value within = arith::AndIOp::create(b, position, b.i64(kStateBlock - 1));
    for (auto [value, of, join] : llvm::zip_equal(*values, numbers, largest)) {
      b.store(value, b.address(of, b.getF32Type(), within));
      join = e_.combine(b, join, b.absolute(value), /*sum=*/false);
    }
    return success();
  }

  /// The codes of a block's `numbers`, and its magnitude; what was there where the update does not proceed.
  LogicalResult emitCodes(const PlannedEncode &planned, const IndexSymbol *record, unsigned level, Value numbers,
                          Value magnitude) {
    auto encode = cast<graph::EncodeBlocksOp>(planned.op);
    Value base = results_.lookup(planned.result), old = encode.getOld();
    Element proceed = e_.emit(encode.getProceed(), IndexExpr(record));
    if (!proceed)
      return failure();
    Value oldMagnitude = e_.magnitudeAt(old, IndexExpr(record));
    Value inverse = inverseMagnitude(e_.at(level), magnitude);
    SmallVector<Value> none;
    IndexSymbol facts;
    facts.maximum = kStateBlock - kChunk;
    facts.divisor = kChunk;
    facts.columnLoop = &kernel_;
    KernelBuilder &b = e_.at(level);
    if (failed(e_.forLoop(level, b.i64(0), b.i64(kStateBlock), kChunk, facts, none,
                          [&](const IndexSymbol *offset, unsigned inner, Carried &) {
                            const IndexExpr index = IndexExpr(record) + IndexExpr(offset);
                            Value before = e_.codesAt(old, e_.withLanes(index, kChunk, &kernel_));
                            KernelBuilder &b = e_.at(inner);
                            Type f32 = b.getF32Type();
                            Value values = b.load(b.address(numbers, f32, offset->value), f32, kChunk);
                            Value codes = stateCodes(b, values, b.splat(inverse, kChunk), isSignedState(old));
                            codes = b.select(proceed.value, codes, before);
                            e_.storeCodes(codes, base, index, inner);
                            return success();
                          })))
      return failure();
    Value kept = e_.at(level).select(proceed.value, magnitude, oldMagnitude);
    e_.storeMagnitude(kept, base, IndexExpr(record), level, Value());
    return success();
  }

  /// The elements after the last whole vector, one by one, and the partial sums of the block.
  LogicalResult emitFlatTail(const IndexSymbol *block, unsigned level, Value whole, Value end, ArrayRef<Value> quarters,
                             ArrayRef<Value> sumLanes) {
    KernelBuilder &b = e_.at(level);
    Type f32 = b.getF32Type();
    constexpr int64_t perSum = kVirtualLanes / kChunk;
    for (auto [i, value] : llvm::enumerate(quarters))
      b.store(value, b.address(sumLanes[i / perSum], f32, b.i64((i % perSum) * kChunk)));
    IndexSymbol facts;
    int64_t columns = kernel_.columns.front().columns;
    facts.maximum = (ShapedType::isDynamic(columns) ? int64_t(1) << 40 : columns) - 1;
    facts.columnLoop = &kernel_;
    SmallVector<Value> none;
    if (failed(e_.forLoop(level, whole, end, 1, facts, none,
                          [&](const IndexSymbol *column, unsigned inner, Carried &values) {
                            return emitFlatChunk({IndexExpr(column), 1, 0, inner}, values, sumLanes);
                          })))
      return failure();
    for (auto [sum, lanes] : llvm::zip(kernel_.sums, sumLanes)) {
      SmallVector<Value> loaded;
      KernelBuilder &after = e_.at(level);
      for (int64_t i = 0; i < perSum; ++i)
        loaded.push_back(after.load(after.address(lanes, f32, after.i64(i * kChunk)), f32, kChunk));
      Value folded = e_.fold(loaded, /*sum=*/true, level);
      e_.store(folded, workspace_, f32, IndexExpr(block) * kernel_.sums.size() + sum.offset, level, /*add=*/false);
    }
    return success();
  }

  /// With `sumLanes` the chunk is one element whose square joins its lane in memory, else a vector that joins
  /// `carried`.
  LogicalResult emitFlatChunk(const ColumnChunk &chunk, Carried &carried, ArrayRef<Value> sumLanes) {
    if (failed(emitChunk(kernel_.columns.front(), IndexExpr(), nullptr, chunk)))
      return failure();
    for (auto [number, sum] : llvm::enumerate(kernel_.sums)) {
      Element x = e_.emit(sum.op->getOperand(0), chunk.column);
      if (!x)
        return failure();
      Value square = e_.squareOf(x, chunk);
      if (chunk.lanes == kChunk) {
        e_.accumulate(chunk, square, /*sum=*/true, Value(), carried, number * (kVirtualLanes / kChunk));
        continue;
      }
      Value position = e_.materialize(chunk.column);
      KernelBuilder &inner = e_.at(chunk.level);
      Value lane = arith::AndIOp::create(inner, position, inner.i64(kVirtualLanes - 1));
      Value address = inner.address(sumLanes[number], inner.getF32Type(), lane);
      inner.store(inner.add(inner.load(address, inner.getF32Type(), 1), square), address);
    }
    return success();
  }

  /// A sum of squares is, from here on, the sum of its blocks' partial sums in order, in f64: there may be a million of
  /// them, each far smaller than their sum.
  void bindSumFolds() {
    Value length = scalar(0);
    KernelBuilder &b = e_.at(0);
    Value blocks = arith::DivUIOp::create(b, b.add(length, b.i64(kFlatBlock - 1)), b.i64(kFlatBlock));
    int64_t stride = kernel_.folds.size();
    for (const PlannedPartial &fold : kernel_.folds)
      e_.override(fold.op->getResult(0), [this, fold, blocks, stride](ArrayRef<IndexExpr>) -> Element {
        KernelBuilder &b = e_.at(0);
        SmallVector<Value> total{b.real(b.getF64Type(), 0.0)};
        IndexSymbol facts;
        facts.maximum = int64_t(1) << 40;
        LogicalResult done = e_.forLoop(
            0, b.i64(0), blocks, 1, facts, total, [&](const IndexSymbol *block, unsigned inner, Carried &values) {
              Element partial = e_.load(workspace_, e_.at(inner).getF32Type(), IndexExpr(block) * stride + fold.offset);
              KernelBuilder &in = e_.at(inner);
              values[0] = in.add(values[0], in.convertReal(partial.value, in.getF64Type()));
              return success();
            });
        return failed(done) ? Element() : Element{e_.at(0).convertReal(total[0], b.getF32Type()), 0};
      });
  }

  func::FuncOp function_;
  Operation *group_;
  const PlannedKernel &kernel_;
  const ColumnPlans &plans_;
  bool add_;
  KernelEmitter e_;
  DenseMap<unsigned, Value> results_;
  Value workspace_;
};
} // namespace

LogicalResult mapToHost(ModuleOp kernels) {
  KernelModule::State state(kernels, {/*host=*/true, /*device=*/false});
  auto emit = [&](Operation *group, const PlannedKernel &kernel, StringRef name, bool add) {
    return untilColumnsSuit(group, [&](ColumnPlans &plans, bool &restart) -> LogicalResult {
      KernelBuilder builder = state.builder();
      func::FuncOp function = state.createKernel(builder, name);
      HostForm form(builder, function, group, kernel, plans, add);
      return KernelModule::State::attempt(builder, function, form, restart);
    });
  };
  return mapForms(kernels, kernel::ObjectKind::Host, emit);
}

} // namespace ztc::codegen
