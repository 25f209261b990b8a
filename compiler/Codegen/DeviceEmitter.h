// KernelEmitter for a GPU's block: columns are dealt to a team of neighbouring threads, reductions go through shuffles
// and shared memory. All threads of a block run the same loops; what a thread has no share in is guarded.
#pragma once
#include "compiler/Codegen/KernelEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <array>
#include <map>

namespace ztc::codegen {

inline constexpr int64_t kWarp = 32;
inline constexpr int64_t kMaxBlockThreads = 1024;
/// Bytes of the widest load and store.
inline constexpr int64_t kVectorBytes = 16;
/// Turns of a column loop that are unrolled, so that what they load stays in registers for the next pass over the row.
inline constexpr int64_t kUnrolledTurns = 8;

class DeviceEmitter : public KernelEmitter {
public:
  /// Emits into `kernel`, whose blocks have `blockThreads` threads, vectors of at most `vector` elements.
  DeviceEmitter(KernelBuilder &builder, ColumnPlans &plans, mlir::func::FuncOp kernel, int64_t vector);

  /// Lanes over which a row of `size` is summed: column c belongs to lane c mod rowLanes; lanes start at the neutral
  /// element and are folded with their neighbours, lane i with i + 1, then i + 2, i + 4, ... A function of the size
  /// alone.
  static int64_t rowLanes(int64_t size);
  /// The key of all loops over rows of `size`: they are cut at the same columns, so that one pass finds what another
  /// has loaded.
  LoopKey keyOf(int64_t size);
  /// Elements that a thread handles at once in a row of `size`.
  int64_t width(int64_t size);
  /// Threads that a row of `size` keeps busy: a power of two.
  int64_t teamOf(int64_t size);

  void setBlockThreads(int64_t threads) { blockThreads_ = threads; }
  /// Threads that share the rows of the kernel: those of values that no row can change.
  void setRowTeam(int64_t threads) { rowTeam_ = team_ = threads; }
  /// Threads that share the columns of the loops that follow.
  void setTeam(int64_t threads) { team_ = threads; }
  int64_t team() const { return team_; }
  /// Unrolls all column loops, whatever their length.
  void setUnrolled(bool unrolled) { unrolled_ = unrolled; }

  /// i64, of level 0: the thread's number in the block, and in its team.
  mlir::Value thread();
  mlir::Value block();
  mlir::Value member(int64_t threads);
  /// Columns belong to the loop at `level` from here on: what they alone decide is emitted in it, not kept in registers
  /// around it.
  void setColumnLevel(unsigned level) {
    columnLevel_ = level;
    columns_.clear();
  }
  /// The first column of this thread in a turn of the team over `count` columns from `begin` on.
  IndexExpr column(int64_t size, int64_t begin, int64_t count);
  const IndexSymbol *makeSymbol(IndexSymbol facts) { return symbol(facts); }

  llvm::LogicalResult forColumns(unsigned level, int64_t size, LoopKey key, int64_t stride, Carried &carried,
                                 ColumnBody body) override;
  /// How many chunks forColumns gives where it unrolls.
  int64_t chunkCount(int64_t size);

  /// The fold of a team's values, neighbours first; every thread of the team gets it. 32-bit types.
  mlir::Value foldTeam(mlir::Value value, int64_t threads, bool sum, unsigned level);
  /// Shared memory of the kernel; the block's threads must pass a barrier between uses of different kinds.
  mlir::Value shared(int64_t bytes, unsigned level);
  void barrier(unsigned level);
  mlir::Value sharedAddress(int64_t bytes, mlir::Type element, mlir::Value index, unsigned level);
  int64_t sharedBytes() const { return sharedBytes_; }
  /// Neighbours of `values` joined until one is left.
  mlir::Value foldNeighbours(llvm::SmallVector<mlir::Value> values, bool sum, unsigned level);
  /// The lanes of a vector as scalars.
  llvm::SmallVector<mlir::Value> lanesAsScalars(mlir::Value value, unsigned level);

  /// Creates the kernel's shared memory, if it has any, in front of it.
  void finish();

protected:
  int64_t columnBase(LoopKey key) override { return bases_[key]; }
  int64_t alignmentOf(const IndexExpr &index, mlir::Type element) override;
  Element reduceLast(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, const Access &access) override;

private:
  Element reduceByTeam(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, Access access,
                       int64_t threads);
  Element reduceByThread(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, Access access);
  mlir::Value exchange(mlir::Value value, int64_t mask, bool sum, unsigned level);

  mlir::func::FuncOp kernel_;
  int64_t vector_, blockThreads_ = 1, rowTeam_ = 1, team_ = 1, sharedBytes_ = 0;
  unsigned columnLevel_ = 0;
  bool unrolled_ = false;
  mlir::Value thread_, block_;
  std::map<int64_t, mlir::Value> members_;
  std::map<std::array<int64_t, 3>, const IndexSymbol *> columns_; ///< by size, team, and columns if not all take part
  std::map<LoopKey, int64_t> bases_;                              ///< the constant in the column of the open chunk
};

} // namespace ztc::codegen
