// Indices of a kernel as sums of symbols with known ranges: most divisions of reshapes fold away, and contiguity can be
// read off.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace ztc::codegen {

/// A column loop of a kernel, as a name that survives emitting the kernel again.
using LoopKey = const void *;

/// A non-negative run-time index, or the number of a vector lane.
struct IndexSymbol {
  unsigned id = 0;
  mlir::Value value;            ///< i64; null for a lane number
  int64_t minimum = 0;          ///< inclusive
  int64_t maximum = 0;          ///< inclusive
  int64_t divisor = 1;          ///< a known divisor of the value
  unsigned level = 0;           ///< depth of the loop in which the value is defined
  LoopKey columnLoop = nullptr; ///< the column loop that this symbol counts, or whose lanes it numbers
  // On a GPU, where all threads of a block run the same loops:
  mlir::Value guard;    ///< i1: where it is false, nothing may be loaded or stored here; null: never false
  mlir::Value bound;    ///< i64: if the guard is false, lanes in front of it exist nevertheless; may be null
  int64_t sharedBy = 0; ///< neighbouring threads that hold the same value; 0: all of a block
  bool isLane() const { return !value; }
};

/// constant + sum of coefficient * symbol.
class IndexExpr {
public:
  struct Term {
    const IndexSymbol *symbol;
    int64_t coefficient;
  };

  IndexExpr(int64_t constant = 0) : constant_(constant) {}
  IndexExpr(const IndexSymbol *symbol) : terms_{{symbol, 1}} {}

  IndexExpr operator+(const IndexExpr &other) const;
  IndexExpr operator-(int64_t constant) const { return *this + IndexExpr(-constant); }
  IndexExpr operator*(int64_t factor) const;

  llvm::ArrayRef<Term> terms() const { return terms_; }
  int64_t constant() const { return constant_; }
  int64_t minimum() const;
  int64_t maximum() const;
  /// The greatest number known to divide the value; 0 for the constant 0.
  int64_t divisor() const;
  unsigned level() const;
  /// The lane symbol, with its coefficient, or null.
  const IndexSymbol *lane(int64_t *coefficient = nullptr) const;
  IndexExpr withoutLane() const;
  /// Appends numbers that are equal for equal expressions only.
  void appendKey(std::vector<int64_t> &key) const;

private:
  llvm::SmallVector<Term, 3> terms_; ///< by symbol id, no zero coefficients
  int64_t constant_ = 0;
};

/// One index per dimension of a tensor; at most one lane symbol in all of them.
using Access = llvm::SmallVector<IndexExpr, 4>;

unsigned levelOf(llvm::ArrayRef<IndexExpr> access);
const IndexSymbol *laneOf(llvm::ArrayRef<IndexExpr> access);
/// The row-major position of `access` in a tensor of `shape`; a dynamic size may stand first only.
IndexExpr linearize(llvm::ArrayRef<IndexExpr> access, llvm::ArrayRef<int64_t> shape);

} // namespace ztc::codegen
