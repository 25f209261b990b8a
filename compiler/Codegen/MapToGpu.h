// The forms of kernels on a GPU: which threads of which block compute which elements. What an element is, KernelEmitter
// knows. Parameters of a kernel: a pointer per buffer, the scalars of its launch, its extent.
#pragma once
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Codegen/KernelForms.h"
#include "compiler/Codegen/KernelState.h"

namespace ztc::codegen {

/// Threads of a block where a row does not want more.
inline constexpr int64_t kBlockThreads = 128;

/// One attempt at one kernel.
class DeviceForm {
public:
  DeviceForm(KernelBuilder &builder, mlir::func::FuncOp function, mlir::Operation *group, const PlannedKernel &kernel,
             ColumnPlans &plans, bool add);

  llvm::LogicalResult run();
  bool wantsRestart() const { return e_.wantsRestart(); }
  /// After a successful run.
  DeviceLaunch finish();

private:
  using Carried = KernelEmitter::Carried;

  void bindBuffers();
  mlir::Value scalar(unsigned number) { return function_.getArgument(kernel_.description.buffers.size() + number); }

  void setBlock(int64_t threads, int64_t units);
  /// Threads that a row of the kernel keeps busy: in its widest result, partial result or reduction.
  int64_t rowTeam();
  /// The quotient of a thread's or block's number: i64, of level 0.
  mlir::Value over(mlir::Value number, int64_t divisor);
  mlir::Value modulo(mlir::Value number, int64_t divisor);
  /// The unit of this thread, where `threads` neighbours share one and a block has `units`.
  const IndexSymbol *unitSymbol(int64_t threads, int64_t units);

  // MapToGpu.cpp: rows.
  llvm::LogicalResult emitRows();
  /// Whether an op of the group adds up its operand's last dimension.
  bool reducesRows();
  /// Loads the row's operands, where they stay in registers: a reduction's barriers would let one wait for the other.
  llvm::LogicalResult loadAhead(const ColumnGroup &group, const IndexExpr &row, unsigned level);
  /// Asks for the operands of row `nextRow_`, so that they arrive while this row waits at its barriers: a block of rows
  /// fills a multiprocessor, and no other block hides the latency of its loads.
  void prefetchNext(const ColumnGroup &group, unsigned level);
  /// The results of one row; the operands of partial results are added to `carried`, chunk by chunk.
  llvm::LogicalResult emitRow(const IndexExpr &row, unsigned level, Carried &carried);
  llvm::LogicalResult emitColumns(const ColumnGroup &group, const IndexExpr &row, unsigned level, Carried &carried,
                                  int64_t firstSum);
  /// All elements of a chunk first, then the stores: a result of a flat kernel may stand where an operand stood.
  llvm::LogicalResult emitChunk(const ColumnGroup &group, const IndexExpr &row, const ColumnChunk &chunk,
                                Carried &carried, int64_t &sum);

  // MapToGpuColumns.cpp: sums of columns.
  mlir::Type elementOf(const PlannedPartial &partial) {
    return registerType(e_.element(partial.op->getResult(0).getType()));
  }
  /// Teams of a block of rows: as many as their registers allow. A thread keeps its columns of each operand, of the
  /// sums and of a value or two between the passes over a row.
  int64_t rowBlockTeams(int64_t team);
  /// Teams take their sub-blocks of rows with the columns' sums in registers; shared memory joins the teams.
  llvm::LogicalResult emitRowBlocks();
  static IndexExpr partialIndex(const PlannedPartial &partial, const IndexExpr &block, const IndexExpr &column);
  /// Values of the same member in `teams` neighbouring teams, joined; every thread gets the result.
  mlir::Value joinTeams(mlir::Value value, int64_t team, int64_t teams, unsigned level = 0);
  /// A unit of columns is shared by one team for each strand of the fold.
  llvm::LogicalResult emitColumnUnits();
  /// A column reduction is, from here on, the sum of its partial results: in strands, which teams share or a thread
  /// takes one by one.
  void bindColumnFolds();

  // MapToGpuFlat.cpp: flat blocks, and what is made of their sums.
  llvm::LogicalResult emitFlat();
  llvm::LogicalResult emitFlatChunk(const ColumnChunk &chunk, Carried &sums);
  /// Codes of a chunk's elements and the magnitudes of their blocks, one of each for what the kernel encodes: the
  /// threads that share a block join. Nothing is stored yet.
  struct BlockCodes {
    mlir::Value codes, magnitude;
  };
  std::optional<llvm::SmallVector<BlockCodes>> blockCodes(const ColumnChunk &chunk);
  void storeBlockCodes(const ColumnChunk &chunk, llvm::ArrayRef<BlockCodes> blocks);
  /// `value` with zero in the lanes that do not exist.
  mlir::Value existing(const ColumnChunk &chunk, mlir::Value value);
  /// One block; the sums of the flat blocks go over its threads.
  llvm::LogicalResult emitOnce();
  void bindSumFolds(int64_t team);

  mlir::func::FuncOp function_;
  mlir::Operation *group_;
  const PlannedKernel &kernel_;
  ColumnPlans &plans_;
  bool add_;
  int64_t vector_, strands_ = 1;
  std::optional<IndexExpr> nextRow_; ///< that this team takes after the open one
  DeviceEmitter e_;
  DeviceLaunch launch_;
  llvm::DenseMap<unsigned, mlir::Value> results_;
  mlir::Value workspace_;
};

} // namespace ztc::codegen
