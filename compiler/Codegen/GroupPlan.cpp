#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Codegen/KernelBuilder.h"
#include "compiler/Codegen/KernelEmitter.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <functional>
#include <numeric>
#include <set>

using namespace mlir;

namespace ztc::codegen {

SmallVector<Value> ColumnGroup::elements() const {
  SmallVector<Value> values;
  for (const PlannedOutput &output : outputs)
    values.push_back(output.value);
  for (const PlannedPartial &partial : partials)
    values.push_back(partial.op->getOperand(0));
  return values;
}

std::optional<IndexExpr> positionOf(KernelEmitter &emitter, const PlannedOutput &output, const IndexExpr &row,
                                    const IndexExpr &column) {
  if (!output.isPart())
    return row * output.columns + column;
  std::optional<Access> parts = emitter.delinearize(row, {output.rows / output.perRow, output.perRow});
  if (!parts)
    return std::nullopt;
  return (*parts)[0] * output.width + (*parts)[1] * output.columns + column + output.offset;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static int64_t columnsOf(ArrayRef<int64_t> shape) {
  return shape.empty() ? 1 : shape.back();
}
static int64_t rowsOf(ArrayRef<int64_t> shape) {
  int64_t rows = 1;
  for (int64_t size : shape.drop_back(shape.empty() ? 0 : 1))
    rows *= size;
  return rows;
}

/// Whether `op` sums all rows of its operand: the gradient of a norm's weight or of a bias.
static bool isColumnReduction(Operation *op) {
  auto reduce = dyn_cast<graph::ReduceSumOp>(op);
  if (!reduce)
    return false;
  auto source = cast<RankedTensorType>(reduce.getX().getType());
  if (!source.hasStaticShape() || source.getRank() < 2 || rowsOf(source.getShape()) == 1)
    return false;
  SmallVector<bool> reduced(source.getRank(), false);
  for (int64_t axis : reduce.getAxes())
    reduced[axis] = true;
  for (int64_t i = 0; i + 1 < source.getRank(); ++i)
    if (!reduced[i] && source.getDimSize(i) != 1)
      return false;
  return !reduced.back() || source.getShape().back() == 1;
}

/// A matrix whose rows join those of others is written part by part, where these begin at whole vectors; other results
/// are their own only part.
static void addParts(const PlannedOutput &output, std::vector<PlannedOutput> &parts) {
  auto joined = output.value.getDefiningOp<graph::ConcatOp>();
  auto isWhole = [](Value part) { return shapeOf(part)[1] % kChunk == 0; };
  if (!joined || shapeOf(joined).size() != 2 || joined.getAxis() != 1 || !llvm::all_of(joined.getInputs(), isWhole)) {
    parts.push_back(output);
    return;
  }
  int64_t offset = 0;
  for (Value value : joined.getInputs()) {
    int64_t width = shapeOf(value)[1];
    while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
      value = reshape.getX();
    auto shape = shapeOf(value);
    parts.push_back(
        {value, output.result, rowsOf(shape), columnsOf(shape), rowsOf(shape) / output.rows, output.columns, offset});
    offset += width;
  }
}

namespace {
class Planner {
public:
  Planner(Operation *group, ArrayRef<unsigned> classes) : group_(group), body_(bodyOf(group)), classes_(classes) {}

  FailureOr<GroupPlan> run() {
    collect();
    if (isFlat()) {
      if (failed(planFlat()))
        return failure();
    } else if (failed(planRows())) {
      return failure();
    }
    splitByClass();
    for (PlannedKernel &kernel : plan_.kernels)
      describeBuffers(kernel);
    return std::move(plan_);
  }

private:
  void collect() {
    for (auto [number, yielded] : llvm::enumerate(body_.getTerminator()->getOperands())) {
      Value value = yielded;
      while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
        value = reshape.getX();
      auto shape = shapeOf(value);
      outputs_.push_back({value, static_cast<unsigned>(number), rowsOf(shape), columnsOf(shape)});
    }
    for (Operation &op : body_) {
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return reachesPartial(operand); }))
        afterPartial_.insert(&op);
      else if (isColumnReduction(&op) || isa<graph::SumSquaresOp>(op))
        partials_.insert(&op);
    }
  }

  /// Whether `value` is computed from a sum that takes a kernel of its own.
  bool reachesPartial(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && (partials_.contains(op) || afterPartial_.contains(op));
  }

  bool isFlat() const {
    bool dynamic = false, reduces = false, squares = false;
    auto look = [&](Value value) { dynamic |= !cast<RankedTensorType>(value.getType()).hasStaticShape(); };
    llvm::for_each(body_.getArguments(), look);
    for (Operation &op : body_) {
      llvm::for_each(op.getResults(), look);
      reduces |= isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op);
      squares |= isa<graph::SumSquaresOp>(op);
    }
    if (dynamic || squares)
      return true;
    auto first = cast<RankedTensorType>(resultsOf(group_).front().getType());
    return !reduces && first.getRank() == 1 && first.getDimSize(0) > 1 &&
           llvm::all_of(resultsOf(group_).getTypes(),
                        [&](Type type) { return cast<RankedTensorType>(type).getShape() == first.getShape(); });
  }

  LogicalResult planFlat() {
    PlannedKernel flat;
    flat.shape = PlannedKernel::Shape::Flat;
    KernelDescription &d = flat.description;
    d.form = "flat";
    d.flat = true;
    d.flatBlock = kFlatBlock;
    int64_t length = 0;
    bool mixed = false;
    auto join = [&](Value value) {
      int64_t size = shapeOf(value).front();
      mixed |= length != 0 && length != size;
      length = size;
    };
    ColumnGroup columns{1, 0, {}, {}};
    std::vector<PlannedOutput> afterwards;
    for (auto [output, yielded] : llvm::zip_equal(outputs_, body_.getTerminator()->getOperands())) {
      if (reachesPartial(output.value)) {
        afterwards.push_back(output);
        continue;
      }
      if (yielded.getDefiningOp<graph::EncodeBlocksOp>()) {
        join(yielded);
        flat.encodes.push_back({yielded.getDefiningOp(), output.result});
        continue;
      }
      if (shapeOf(yielded).size() != 1)
        return group_->emitOpError("result #") << output.result << " is not flat as the others are";
      join(yielded);
      columns.outputs.push_back({yielded, output.result, 1, shapeOf(yielded).front()});
    }
    for (Operation *op : partials_) {
      if (!isa<graph::SumSquaresOp>(op))
        return op->emitOpError("is not a reduction of a flat kernel");
      join(op->getOperand(0));
      flat.sums.push_back({op, 1, 1, 0, static_cast<int64_t>(flat.sums.size())});
    }
    if (mixed)
      return group_->emitOpError("joins flat values of different lengths");
    if (!flat.encodes.empty() && !partials_.empty())
      return group_->emitOpError("both encodes blocks and adds up squares");
    columns.columns = length;
    if (!ShapedType::isDynamic(length)) {
      d.scalars = {length, 0};
      d.extent = llvm::divideCeil(length, kFlatBlock);
    }
    flat.columns.push_back(std::move(columns));
    std::vector<PlannedPartial> sums = flat.sums;
    plan_.kernels.push_back(std::move(flat));
    if (sums.empty())
      return success();
    plan_.kernels.front().description.form = "flat_reduce";
    if (ShapedType::isDynamic(length))
      plan_.workspaceBytesPerFlatBlock = 4 * sums.size();
    else
      plan_.workspaceBytes = 4 * sums.size() * llvm::divideCeil(length, kFlatBlock);
    PlannedKernel fold;
    fold.shape = PlannedKernel::Shape::Once;
    fold.folds = std::move(sums);
    fold.description.form = "fold";
    // One block, however long the shard is: the kernel is told the length as every flat kernel is.
    fold.description.flat = true;
    fold.description.flatBlock = uint64_t(1) << 62;
    fold.description.extent = 1;
    fold.description.scalars = plan_.kernels.front().description.scalars;
    addOutputs(fold, afterwards);
    plan_.kernels.push_back(std::move(fold));
    return success();
  }

  /// The results of `kernel` in groups that share a loop over columns.
  static void addOutputs(PlannedKernel &kernel, ArrayRef<PlannedOutput> outputs) {
    for (const PlannedOutput &output : outputs)
      columnGroup(kernel, output.rows, output.columns).outputs.push_back(output);
  }
  static ColumnGroup &columnGroup(PlannedKernel &kernel, int64_t rows, int64_t columns) {
    int64_t subRows = rows / kernel.rows;
    for (ColumnGroup &group : kernel.columns)
      if (group.subRows == subRows && group.columns == columns)
        return group;
    kernel.columns.push_back({subRows, columns, {}, {}});
    return kernel.columns.back();
  }

  LogicalResult planRows() {
    PlannedKernel rows;
    std::vector<PlannedOutput> direct, afterwards;
    for (const PlannedOutput &output : outputs_)
      if (reachesPartial(output.value))
        afterwards.push_back(output);
      else
        addParts(output, direct);
    int64_t common = 0; // rows that all results and partials divide into
    for (const PlannedOutput &output : direct)
      common = std::gcd(common, output.rows / output.perRow);
    for (Operation *op : partials_)
      common = std::gcd(common, rowsOf(shapeOf(op->getOperand(0))));
    rows.rows = std::max<int64_t>(common, 1);
    addOutputs(rows, direct);
    rows.rowBlock = rowBlockOf(rows.rows);
    int64_t offset = 0, blocks = llvm::divideCeil(rows.rows, rows.rowBlock);
    std::vector<PlannedPartial> partials;
    for (Operation *op : partials_) {
      auto shape = shapeOf(op->getOperand(0));
      partials.push_back({op, rowsOf(shape), columnsOf(shape), blocks, offset});
      columnGroup(rows, rowsOf(shape), columnsOf(shape)).partials.push_back(partials.back());
      offset += blocks * columnsOf(shape);
    }
    KernelDescription &d = rows.description;
    if (partials.empty()) {
      describeRows(rows);
      plan_.kernels.push_back(std::move(rows));
      return success();
    }
    rows.shape = PlannedKernel::Shape::RowBlocks;
    d.form = direct.empty() ? "column_reduce" : "row_column_reduce";
    d.extent = blocks;
    plan_.workspaceBytes = 4 * offset;
    plan_.kernels.push_back(std::move(rows));
    return planFold(afterwards, std::move(partials));
  }

  LogicalResult planFold(const std::vector<PlannedOutput> &outputs, std::vector<PlannedPartial> partials) {
    PlannedKernel fold;
    fold.folds = std::move(partials);
    fold.description.form = "fold";
    int64_t common = 0;
    for (const PlannedOutput &output : outputs)
      common = std::gcd(common, output.rows);
    fold.rows = std::max<int64_t>(common, 1);
    addOutputs(fold, outputs);
    fold.description.extent = fold.rows;
    if (fold.rows == 1 && fold.columns.size() == 1 && fold.columns[0].subRows == 1) {
      int64_t columns = fold.columns[0].columns;
      fold.shape = PlannedKernel::Shape::Columns;
      fold.unit = columns % kFoldColumns == 0 ? kFoldColumns : columns % kChunk == 0 ? kChunk : columns;
      fold.description.extent = columns / fold.unit;
    }
    plan_.kernels.push_back(std::move(fold));
    return success();
  }

  /// Block arguments that `value` is computed from without going through the sums in `folds`.
  void usedOperands(Value value, const SmallPtrSetImpl<Operation *> &folds, SmallPtrSetImpl<Operation *> &seen,
                    SmallVectorImpl<bool> &used) const {
    Operation *op = value.getDefiningOp();
    if (!op) {
      used[cast<BlockArgument>(value).getArgNumber()] = true;
      return;
    }
    if (folds.contains(op) || !seen.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      usedOperands(operand, folds, seen, used);
  }

  /// Kernels that write results of several classes become one for each, of which the last keeps the partials.
  void splitByClass() {
    if (classes_.empty())
      return;
    std::vector<PlannedKernel> whole = std::move(plan_.kernels);
    plan_.kernels.clear();
    for (PlannedKernel &kernel : whole) {
      std::set<unsigned, std::greater<>> classes;
      for (const ColumnGroup &group : kernel.columns)
        for (const PlannedOutput &output : group.outputs)
          classes.insert(classes_[output.result]);
      for (const PlannedEncode &encode : kernel.encodes)
        classes.insert(classes_[encode.result]);
      while (classes.size() > 1) {
        plan_.kernels.push_back(takeClass(kernel, *classes.begin()));
        classes.erase(classes.begin());
      }
      plan_.kernels.push_back(std::move(kernel));
    }
  }

  /// Moves the results of one class into a kernel of their own.
  PlannedKernel takeClass(PlannedKernel &kernel, unsigned number) const {
    PlannedKernel taken = kernel;
    auto keep = [&](PlannedKernel &of, llvm::function_ref<bool(unsigned)> wanted) {
      for (ColumnGroup &group : of.columns)
        llvm::erase_if(group.outputs, [&](const PlannedOutput &output) { return !wanted(classes_[output.result]); });
      llvm::erase_if(of.encodes, [&](const PlannedEncode &encode) { return !wanted(classes_[encode.result]); });
      if (of.encodes.empty())
        llvm::erase_if(of.columns,
                       [](const ColumnGroup &group) { return group.outputs.empty() && group.partials.empty(); });
    };
    for (ColumnGroup &group : taken.columns)
      group.partials.clear();
    taken.sums.clear();
    keep(taken, [&](unsigned own) { return own == number; });
    keep(kernel, [&](unsigned own) { return own != number; });
    if (taken.shape == PlannedKernel::Shape::RowBlocks) {
      taken.shape = PlannedKernel::Shape::Rows;
      describeRows(taken);
    }
    return taken;
  }

  static void describeRows(PlannedKernel &rows) {
    int64_t width = 0;
    for (const ColumnGroup &group : rows.columns)
      width += group.subRows * group.columns;
    bool scalar = rows.rows == 1 && width == static_cast<int64_t>(rows.columns.size());
    rows.description.form = scalar ? "scalar" : "row";
    rows.description.extent = rows.rows;
    rows.description.grain = std::max<int64_t>(1, 2048 / std::max<int64_t>(width, 1));
  }

  void describeBuffers(PlannedKernel &kernel) const {
    bool alone = plan_.kernels.size() == 1;
    bool hasPartials = llvm::any_of(kernel.columns, [](const ColumnGroup &group) { return !group.partials.empty(); });
    SmallVector<bool> used(body_.getNumArguments(), alone), written(outputs_.size(), false);
    SmallPtrSet<Operation *, 4> folds;
    SmallPtrSet<Operation *, 32> seen;
    for (const PlannedPartial &fold : kernel.folds)
      folds.insert(fold.op);
    for (const ColumnGroup &group : kernel.columns) {
      for (const PlannedOutput &output : group.outputs) {
        usedOperands(output.value, folds, seen, used);
        written[output.result] = true;
      }
      for (const PlannedPartial &partial : group.partials)
        usedOperands(partial.op->getOperand(0), folds, seen, used);
    }
    for (const PlannedPartial &sum : kernel.sums)
      usedOperands(sum.op->getOperand(0), folds, seen, used);
    for (const PlannedEncode &encode : kernel.encodes) {
      for (Value operand : encode.op->getOperands())
        usedOperands(operand, folds, seen, used);
      written[encode.result] = true;
    }
    auto &buffers = kernel.description.buffers;
    for (auto [index, isUsed] : llvm::enumerate(used))
      if (isUsed)
        buffers.push_back({KernelBuffer::Kind::Operand, static_cast<unsigned>(index), false});
    for (auto [index, isWritten] : llvm::enumerate(written))
      if (isWritten)
        buffers.push_back({KernelBuffer::Kind::Result, static_cast<unsigned>(index), true});
    if (hasPartials || !kernel.sums.empty() || !kernel.folds.empty())
      buffers.push_back({KernelBuffer::Kind::Workspace, 0, kernel.folds.empty()});
  }

  Operation *group_;
  Block &body_;
  ArrayRef<unsigned> classes_; ///< by result; none: all are equal
  std::vector<PlannedOutput> outputs_;
  llvm::SetVector<Operation *> partials_;     ///< sums with partial results
  SmallPtrSet<Operation *, 16> afterPartial_; ///< what is computed from them
  GroupPlan plan_;
};
} // namespace

FailureOr<GroupPlan> planGroup(Operation *group, ArrayRef<unsigned> classes) {
  if (resultsOf(group).empty())
    return group->emitOpError("has no results");
  return Planner(group, classes).run();
}

} // namespace ztc::codegen
