// Rows on a GPU, and what all forms share.
#include "compiler/Codegen/MapToGpu.h"
#include "compiler/Codegen/EmitSimt.h"

using namespace mlir;

namespace ztc::codegen {

/// Elements that fill the widest load: by the narrowest float of the group. Codes of 8 bits are written alone, half as
/// many bytes at a time: what they are made of is all in registers then.
static int64_t vectorElements(Operation *group) {
  int64_t bytes = 4;
  auto look = [&](Type type) {
    if (auto real = dyn_cast<FloatType>(getElementTypeOrSelf(type)); real && real.getWidth() > 8)
      bytes = std::min(bytes, storedBytes(getElementTypeOrSelf(type)));
  };
  llvm::for_each(bodyOf(group).getArgumentTypes(), look);
  llvm::for_each(resultsOf(group).getTypes(), look);
  return kVectorBytes / bytes;
}

DeviceForm::DeviceForm(KernelBuilder &builder, func::FuncOp function, Operation *group, const PlannedKernel &kernel,
                       ColumnPlans &plans, bool add)
    : function_(function), group_(group), kernel_(kernel), plans_(plans), add_(add), vector_(vectorElements(group)),
      e_(builder, plans, function, vector_) {}

LogicalResult DeviceForm::run() {
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

DeviceLaunch DeviceForm::finish() {
  e_.finish();
  launch_.sharedBytes = e_.sharedBytes();
  return launch_;
}

void DeviceForm::bindBuffers() {
  Block &body = bodyOf(group_);
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

void DeviceForm::setBlock(int64_t threads, int64_t units) {
  launch_.blockThreads = threads;
  launch_.unitsPerBlock = units;
  e_.setBlockThreads(threads);
}

int64_t DeviceForm::rowTeam() {
  int64_t threads = 1;
  for (const ColumnGroup &group : kernel_.columns)
    threads = std::max(threads, e_.teamOf(group.columns));
  for (Operation &op : bodyOf(group_)) {
    auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
    if (!axes || op.getNumOperands() != 1)
      continue;
    auto source = cast<RankedTensorType>(op.getOperand(0).getType());
    if (source.hasStaticShape() && llvm::is_contained(axes.asArrayRef(), source.getRank() - 1))
      threads = std::max(threads, e_.teamOf(source.getShape().back()));
  }
  return threads;
}

Value DeviceForm::over(Value number, int64_t divisor) {
  KernelBuilder &b = e_.at(0);
  return divisor == 1 ? number : arith::DivUIOp::create(b, number, b.i64(divisor)).getResult();
}

Value DeviceForm::modulo(Value number, int64_t divisor) {
  KernelBuilder &b = e_.at(0);
  return arith::RemUIOp::create(b, number, b.i64(divisor));
}

const IndexSymbol *DeviceForm::unitSymbol(int64_t threads, int64_t units) {
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

LogicalResult DeviceForm::emitRows() {
  int64_t team = rowTeam(), threads = std::max(team, kBlockThreads);
  setBlock(threads, threads / team);
  e_.setRowTeam(team);
  bindColumnFolds();
  SmallVector<Value> none;
  return emitRow(IndexExpr(unitSymbol(team, threads / team)), 0, none);
}

bool DeviceForm::reducesRows() {
  return llvm::any_of(bodyOf(group_), [](Operation &op) {
    auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
    auto source = axes ? dyn_cast<RankedTensorType>(op.getOperand(0).getType()) : RankedTensorType();
    return source && llvm::is_contained(axes.asArrayRef(), source.getRank() - 1);
  });
}

LogicalResult DeviceForm::loadAhead(const ColumnGroup &group, const IndexExpr &row, unsigned level) {
  if (group.subRows != 1 || !reducesRows() || e_.chunkCount(group.columns) > kUnrolledTurns)
    return success();
  bool once = kernel_.shape == PlannedKernel::Shape::Rows; // a thread has one row: what they share too
  int64_t rows = once ? kernel_.description.extent : kernel_.rows;
  SmallVector<Value> none;
  return e_.forColumns(level, group.columns, nullptr, 1, none, [&](const ColumnChunk &chunk, Carried &) {
    for (const KernelBuffer &buffer : kernel_.description.buffers) {
      if (buffer.kind != KernelBuffer::Kind::Operand)
        continue;
      Value operand = bodyOf(group_).getArgument(buffer.index);
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

void DeviceForm::prefetchNext(const ColumnGroup &group, unsigned level) {
  if (!nextRow_ || group.subRows != 1 || !reducesRows() || e_.chunkCount(group.columns) > kUnrolledTurns)
    return;
  SmallVector<Value> none;
  (void)e_.forColumns(level, group.columns, nullptr, 1, none, [&](const ColumnChunk &chunk, Carried &) {
    if (e_.guardOf(chunk.column, chunk.level).inside)
      return success(); // threads without a share in the row could ask for what lies after the operand
    for (auto [number, buffer] : llvm::enumerate(kernel_.description.buffers)) {
      if (buffer.kind != KernelBuffer::Kind::Operand)
        continue;
      auto type = cast<RankedTensorType>(bodyOf(group_).getArgument(buffer.index).getType());
      if (!type.hasStaticShape() || type.getRank() == 0 || type.getShape().back() != group.columns ||
          type.getNumElements() != kernel_.rows * group.columns || !e_.element(type))
        continue;
      const IndexExpr index = *nextRow_ * group.columns + chunk.column.withoutLane();
      Value position = e_.materialize(index);
      KernelBuilder &b = e_.at(level);
      Value pointer = b.address(function_.getArgument(number), e_.element(type), position);
      // PTX has it for every target, LLVM's intrinsic from sm_90 on.
      LLVM::InlineAsmOp::create(b, TypeRange(), ValueRange(pointer), kPrefetch, "l", /*has_side_effects=*/true,
                                /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                ArrayAttr());
    }
    return success();
  });
}

LogicalResult DeviceForm::emitRow(const IndexExpr &row, unsigned level, Carried &carried) {
  int64_t team = e_.team(), first = 0;
  for (const ColumnGroup &group : kernel_.columns) {
    LogicalResult done = success();
    e_.setUnrolled(!group.partials.empty());
    if (failed(loadAhead(group, row, level)))
      return failure();
    prefetchNext(group, level);
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

LogicalResult DeviceForm::emitColumns(const ColumnGroup &group, const IndexExpr &row, unsigned level, Carried &carried,
                                      int64_t firstSum) {
  int64_t sum = firstSum;
  return e_.forColumns(level, group.columns, nullptr, 1, carried, [&](const ColumnChunk &chunk, Carried &values) {
    return emitChunk(group, row, chunk, values, sum);
  });
}

LogicalResult DeviceForm::emitChunk(const ColumnGroup &group, const IndexExpr &row, const ColumnChunk &chunk,
                                    Carried &carried, int64_t &sum) {
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

LogicalResult mapToGpu(ModuleOp kernels) {
  KernelModule::State state(kernels, {/*host=*/false, /*device=*/true});
  auto emit = [&](Operation *group, const PlannedKernel &kernel, StringRef name, bool add) {
    return untilColumnsSuit(group, [&](ColumnPlans &plans, bool &restart) -> LogicalResult {
      KernelBuilder builder = state.builder();
      const KernelDescription &d = kernel.description;
      func::FuncOp function = state.createDeviceKernel(builder, name, d.buffers.size(), d.flat ? 2 : d.scalars.size());
      DeviceForm form(builder, function, group, kernel, plans, add);
      if (failed(KernelModule::State::attempt(builder, function, form, restart)))
        return failure();
      KernelModule::State::setLaunch(function, form.finish());
      return success();
    });
  };
  // The engine of simt runs what is generated where PTX has no object for it beside it.
  return mapForms(kernels, {kernel::ObjectKind::Ptx, kernel::ObjectKind::Simt}, emit);
}

} // namespace ztc::codegen
