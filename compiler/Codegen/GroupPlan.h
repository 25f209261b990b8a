// How a group becomes kernels: which form, which loops, which results where.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/IndexExpr.h"
#include <optional>
#include <string>

namespace ztc::codegen {

class KernelEmitter;

/// Rows that add into one partial result of a column reduction over `rows`: as many as leave a block for each
/// multiprocessor of a large GPU, in multiples of four, and not so few that partial results are what is moved.
constexpr int64_t rowBlockOf(int64_t rows) {
  return rows >= 4096 ? 32 : rows >= 2048 ? 16 : 8;
}
/// Elements of a block of a flat kernel; a sum of squares has one partial result for each.
inline constexpr int64_t kFlatBlock = 4096;
/// Columns that one unit of a fold over partial results handles, where they divide the row.
inline constexpr int64_t kFoldColumns = 64;

/// A result of a kernel as rows of columns. The value is the one before trailing reshapes: the bytes are the
/// same.
struct PlannedOutput {
  mlir::Value value;
  unsigned result; ///< of the group
  int64_t rows, columns;
  /// Of a part of a result, a matrix whose rows are made of several values: rows of the value in one row of the result,
  /// elements of that row, and where the part begins in it.
  int64_t perRow = 1, width = 0, offset = 0;

  bool isPart() const { return width != 0; }
};

/// The element of `output`'s result that belongs to (row, column) of its value; nothing after asking `emitter` for a
/// restart.
std::optional<IndexExpr> positionOf(KernelEmitter &emitter, const PlannedOutput &output, const IndexExpr &row,
                                    const IndexExpr &column);

/// A sum whose partial results stand in the workspace: reduce_sum over all rows, or sum_squares.
struct PlannedPartial {
  mlir::Operation *op;
  int64_t rows, columns; ///< of what is reduced; a sum of squares has one column
  int64_t blocks;        ///< of rows that have a partial result each
  int64_t offset;        ///< in elements: of a column reduction from the workspace's start, else the number of the sum
};

/// A result of a flat kernel in blocks of 8-bit codes: a graph.encode_blocks.
struct PlannedEncode {
  mlir::Operation *op;
  unsigned result; ///< of the group
};

/// Results and partials that share a loop over columns.
struct ColumnGroup {
  int64_t subRows; ///< rows of these results within one row of the kernel
  int64_t columns;
  std::vector<PlannedOutput> outputs;
  std::vector<PlannedPartial> partials;

  /// What is computed for a chunk of a row: the outputs' values, then what the partials sum.
  llvm::SmallVector<mlir::Value> elements() const;
};

struct PlannedKernel {
  enum class Shape {
    Rows,      ///< parallel over rows
    RowBlocks, ///< parallel over blocks of rows, with partial column sums
    Columns,   ///< one row, parallel over blocks of columns
    Flat,      ///< parallel over blocks of kFlatBlock elements of run-time length
    Once       ///< one unit
  };
  Shape shape = Shape::Rows;
  int64_t rows = 1;
  int64_t rowBlock = 0;               ///< rows of a block, where shape is RowBlocks
  int64_t unit = 0;                   ///< columns of a unit, where shape is Columns
  std::vector<ColumnGroup> columns;   ///< at most one where shape is Columns or Flat
  std::vector<PlannedPartial> sums;   ///< sums of squares of a flat kernel
  std::vector<PlannedEncode> encodes; ///< of a flat kernel
  std::vector<PlannedPartial> folds;  ///< partials that this kernel reads
  KernelDescription description;      ///< without a name
};

struct GroupPlan {
  std::vector<PlannedKernel> kernels;
  uint64_t workspaceBytes = 0, workspaceBytesPerFlatBlock = 0;
};

/// What a graph.fusion or a kernel.func computes: its only block, and the values that this gives.
inline mlir::Block &bodyOf(mlir::Operation *group) {
  return group->getRegion(0).front();
}
inline mlir::OperandRange resultsOf(mlir::Operation *group) {
  return bodyOf(group).getTerminator()->getOperands();
}

/// Chooses the form of a group, a graph.fusion or a kernel.func. Results whose numbers in `classes` differ (none: all
/// are equal) are written by different kernels, those of the lowest number last. A group that no form fits is a located
/// diagnostic.
llvm::FailureOr<GroupPlan> planGroup(mlir::Operation *group, llvm::ArrayRef<unsigned> classes = {});

} // namespace ztc::codegen
