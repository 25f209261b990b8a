// Emits the values of a group where a kernel asks for them. Demand-driven: a form (MapToHost.cpp) opens loops over rows
// and columns and asks for elements of the results; everything else follows from the ops between them and the operands.
#pragma once
#include "compiler/Codegen/IndexExpr.h"
#include "compiler/Codegen/KernelBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace ztc::codegen {

/// What earlier attempts at a kernel found out about its column loops.
struct ColumnPlans {
  std::map<LoopKey, std::set<int64_t>> splits; ///< columns at which a loop is cut: pieces of a concat, edges of a pad
  std::set<LoopKey> scalar;                    ///< loops whose lanes do not stay together: one element at a time
  std::map<int64_t, char> sizes;               ///< on a GPU loops over equal sizes are one: its entry here is the key
};

/// A value of the kernel and the depth of the loop that it was emitted in.
struct Element {
  mlir::Value value; ///< a scalar, where all lanes are equal, or a vector; null: the attempt failed
  unsigned level = 0;
  explicit operator bool() const { return value != nullptr; }
};

/// A run of columns handled at once.
struct ColumnChunk {
  IndexExpr column; ///< of lane 0, plus the lane symbol
  int64_t lanes;
  int64_t phase;  ///< the first column modulo kVirtualLanes, where it is known (vector loops)
  unsigned level; ///< where to emit
};

/// What is known of an index that some threads of a GPU must not follow.
struct IndexGuard {
  mlir::Value inside;        ///< i1; null: every thread may
  mlir::Value column, bound; ///< i64: where not inside, lane i exists if column + i < bound; null: no lane does
};

/// The mapping to a processor is virtual: here to lanes of the host's vector registers, in DeviceEmitter to the threads
/// of a GPU's block.
class KernelEmitter {
public:
  using Carried = llvm::SmallVectorImpl<mlir::Value>;
  using LoopBody = llvm::function_ref<llvm::LogicalResult(const IndexSymbol *, unsigned level, Carried &)>;
  using BranchBody = llvm::function_ref<llvm::LogicalResult(unsigned level, Carried &)>;
  using ColumnBody = llvm::function_ref<llvm::LogicalResult(const ColumnChunk &, Carried &)>;
  using Override = std::function<Element(llvm::ArrayRef<IndexExpr>)>;

  /// Emits into the entry block at the builder's insertion point, which becomes level 0.
  KernelEmitter(KernelBuilder &builder, ColumnPlans &plans);
  virtual ~KernelEmitter() = default;

  /// The buffer of a group's block argument.
  void bind(mlir::Value operand, mlir::Value pointer) { pointers_[operand] = pointer; }
  /// Gives `value` another meaning than its defining op: the fold of a workspace.
  void override(mlir::Value value, Override meaning) { overrides_[value] = std::move(meaning); }
  /// i64: where the shard starts in its bucket, a multiple of kShardQuantum, added to graph.iota of a flat kernel.
  void setFlatStart(mlir::Value start) { flatStart_ = start; }

  /// The builder, at the place where values of loop depth `level` go.
  KernelBuilder &at(unsigned level);
  /// Elements of a value of the group at `access`, as registers hold them; null after a failed attempt or an error.
  Element emit(mlir::Value value, llvm::ArrayRef<IndexExpr> access);
  /// Whether a failed emission is worth another attempt with what `plans` now knows.
  bool wantsRestart() const { return restart_; }

  /// A loop from `lower` to `upper` (defined at `level`) whose body is level + 1. `facts` describes the induction
  /// variable.
  llvm::LogicalResult forLoop(unsigned level, mlir::Value lower, mlir::Value upper, int64_t step, IndexSymbol facts,
                              Carried &carried, LoopBody body);
  /// The same from 0 to a constant.
  llvm::LogicalResult forLoop(unsigned level, int64_t size, Carried &carried, LoopBody body);
  /// What one of two bodies, at level + 1, makes of the carried values; `condition` is of `level`.
  llvm::LogicalResult either(unsigned level, mlir::Value condition, Carried &carried, BranchBody then,
                             BranchBody otherwise);
  /// All columns of a row of `size`, in order, in chunks: a loop of `stride` columns a turn, and single chunks before
  /// and after.
  virtual llvm::LogicalResult forColumns(unsigned level, int64_t size, LoopKey key, int64_t stride, Carried &carried,
                                         ColumnBody body);
  /// A column index with `lanes` lanes for loops that a form opens itself.
  IndexExpr withLanes(const IndexExpr &column, int64_t lanes, LoopKey key);

  /// The i64 value of an index without its lane, at its own level.
  mlir::Value materialize(const IndexExpr &index);
  /// What the guard of `index` excludes is read as zero.
  Element load(mlir::Value base, mlir::Type element, const IndexExpr &index);
  /// Stores to consecutive elements of type `element` from `index` on, at `level`; with `add`, adds to what is there.
  /// What the guard of `index` excludes is not touched.
  void store(mlir::Value value, mlir::Value base, mlir::Type element, const IndexExpr &index, unsigned level, bool add);
  // Blocks.cpp: states in records of 256 codes and a magnitude.
  /// The codes (i8) and the magnitude that an operand of the group holds at `index`; zero where the guard excludes
  /// them.
  mlir::Value codesAt(mlir::Value state, const IndexExpr &index);
  mlir::Value magnitudeAt(mlir::Value state, const IndexExpr &index);
  /// Stores codes from `index` on into the records at `base`, and the magnitude of the block that `index` is of; `when`
  /// (i1) may be null.
  void storeCodes(mlir::Value codes, mlir::Value base, const IndexExpr &index, unsigned level);
  void storeMagnitude(mlir::Value magnitude, mlir::Value base, const IndexExpr &index, unsigned level,
                      mlir::Value when);
  /// Whether the first lane of `index` may be read: i1; null where it always may.
  mlir::Value existsAt(const IndexExpr &index, unsigned level);
  /// A further condition (i1, of level 0) for the stores that follow; null: none.
  void setStoreGuard(mlir::Value guard) { storeGuard_ = guard; }
  IndexGuard guardOf(const IndexExpr &index, unsigned level);
  /// The index of each dimension of `shape`; nothing where lanes would not stay together (a restart is then asked for).
  std::optional<Access> delinearize(const IndexExpr &linear, llvm::ArrayRef<int64_t> shape);
  /// The access of `shape` at (row, column), rows counted over all leading dimensions; nothing as above.
  std::optional<Access> accessOf(llvm::ArrayRef<int64_t> shape, const IndexExpr &row, const IndexExpr &column);
  /// An element type of the group, as it is stored, in the kernel's own context; null where kernels do not know it.
  mlir::Type element(mlir::Type type);
  /// A value in `lanes` lanes, at `level`.
  mlir::Value widen(mlir::Value value, int64_t lanes, unsigned level);
  /// The square, in f32, of the elements of a chunk.
  mlir::Value squareOf(const Element &x, const ColumnChunk &chunk);
  /// Values of the group over a chunk of a row, each in all lanes of the chunk; nothing after a failed attempt.
  std::optional<llvm::SmallVector<mlir::Value>> emitChunk(llvm::ArrayRef<mlir::Value> values, const IndexExpr &row,
                                                          const ColumnChunk &chunk);
  /// Stack memory of `count` elements, taken once per kernel call.
  mlir::Value stack(mlir::Type element, int64_t count);
  /// Folds the four quarters of the virtual lanes.
  mlir::Value fold(llvm::ArrayRef<mlir::Value> quarters, bool sum, unsigned level);
  /// The lanes of a chunk joined to their quarter: `carried` holds four vectors of kChunk from `first` on.
  void accumulate(const ColumnChunk &chunk, mlir::Value value, bool sum, mlir::Value identity, Carried &carried,
                  unsigned first = 0);
  mlir::Value combine(KernelBuilder &b, mlir::Value a, mlir::Value b2, bool sum);
  mlir::Value identity(KernelBuilder &b, mlir::Type type, bool sum);

protected:
  const IndexSymbol *symbol(IndexSymbol facts);
  void restartScalar(LoopKey key);
  Element fail(mlir::Operation *op, const llvm::Twine &message);
  /// The constant that the column of the loop's open chunk holds.
  virtual int64_t columnBase(LoopKey key) { return 0; }
  /// Bytes that the address of `index` is known to be a multiple of.
  virtual int64_t alignmentOf(const IndexExpr &index, mlir::Type element) { return storedBytes(element); }
  /// A reduction over the last dimension and, outside of it, over `outerAxes`.
  virtual Element reduceLast(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, const Access &access);
  /// A reduction over `axes` by loops around one running value.
  Element reduceOuter(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> axes, Access access);
  llvm::LogicalResult overAxes(unsigned level, llvm::ArrayRef<int64_t> axes, llvm::ArrayRef<int64_t> shape,
                               Access &access, Carried &carried,
                               llvm::function_ref<llvm::LogicalResult(unsigned level, Carried &)> body);

  KernelBuilder &builder_;
  ColumnPlans &plans_;

private:
  using Key = std::vector<int64_t>;
  struct Level {
    mlir::OpBuilder::InsertPoint point;
    std::map<Key, Element> values;
    std::map<Key, std::pair<IndexExpr, IndexExpr>> divisions;
  };

  std::optional<std::pair<IndexExpr, IndexExpr>> divide(const IndexExpr &index, int64_t divisor);
  /// A symbol computed from `index` at `level`, with what threads know of it.
  IndexSymbol derived(const IndexExpr &index, unsigned level);
  mlir::Value loadAt(unsigned level, const IndexGuard &guard, mlir::Value pointer, mlir::Type element, int64_t lanes,
                     int64_t alignment);

  // Shapes.cpp: where an element of a result stands in the operands.
  Element emitOp(mlir::Operation *op, mlir::Value value, llvm::ArrayRef<IndexExpr> access);
  Element emitReshape(mlir::Value source, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<IndexExpr> access);
  Element emitPad(mlir::Operation *op, llvm::ArrayRef<IndexExpr> access);
  Element emitConcat(mlir::Operation *op, llvm::ArrayRef<IndexExpr> access);
  Element emitIota(mlir::Operation *op, llvm::ArrayRef<IndexExpr> access);
  Element emitCompare(mlir::OpResult value, llvm::ArrayRef<IndexExpr> access);
  Element emitConstant(mlir::Operation *op, llvm::ArrayRef<IndexExpr> access);
  /// Index relative to [low, low + size): +1 inside, 0 outside, -1 not known statically, nothing after asking for a
  /// restart.
  std::optional<int> placeWithin(const IndexExpr &index, int64_t low, int64_t size);
  /// For a scalar index: whether it is inside, and the index limited to the range.
  std::pair<Element, IndexExpr> limit(const IndexExpr &index, int64_t low, int64_t size);
  Element choose(Element condition, Element a, Element b);

  // Blocks.cpp
  Element emitDecodeBlocks(mlir::Operation *op, llvm::ArrayRef<IndexExpr> access);

  // Elements.cpp
  Element emitElementwise(mlir::OpResult result, llvm::ArrayRef<IndexExpr> access);

  // Reductions.cpp
  Element emitReduce(mlir::Operation *op, bool sum, llvm::ArrayRef<IndexExpr> access);
  Element reduceRow(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, Access access);
  Element reduceRowByElement(mlir::Operation *op, bool sum, llvm::ArrayRef<int64_t> outerAxes, Access access);

  std::vector<Level> levels_;
  std::deque<IndexSymbol> symbols_;
  std::map<std::pair<LoopKey, int64_t>, const IndexSymbol *> lanes_;
  llvm::DenseMap<mlir::Value, mlir::Value> pointers_;
  llvm::DenseMap<mlir::Value, Override> overrides_;
  mlir::Value flatStart_, storeGuard_;
  bool restart_ = false;
};

/// Whether `state`, whose elements are block8, may be negative.
bool isSignedState(mlir::Value state);
/// The codes (i8) of `numbers`, f32 scalars or vectors, times `inverse` of the same type.
mlir::Value stateCodes(KernelBuilder &b, mlir::Value numbers, mlir::Value inverse, bool isSigned);
/// What the numbers of a block with this magnitude are multiplied by.
mlir::Value inverseMagnitude(KernelBuilder &b, mlir::Value magnitude);

} // namespace ztc::codegen
