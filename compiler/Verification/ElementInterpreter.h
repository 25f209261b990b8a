// The reference interpreter on chosen elements of large tensors.
#pragma once
#include "compiler/Reference/Tensor.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <functional>
#include <string>

namespace ztc::verification {

/// Some elements of a value.
struct ChosenElements {
  std::vector<int64_t> positions; ///< row-major, ascending, each once
  Tensor values;                  ///< one for each, in one dimension

  /// Where `position` stands among them; it must be one of them.
  int64_t indexOf(int64_t position) const;
};

/// What a region computes from.
struct ElementSource {
  /// Elements of an operand of the region at ascending positions, in one dimension.
  std::function<Tensor(unsigned operand, llvm::ArrayRef<int64_t> positions)> operand;
  /// Ops whose first result is read and not computed: sums that another kernel has left in the workspace.
  llvm::SmallPtrSet<mlir::Operation *, 4> readOps;
  std::function<Tensor(mlir::Operation *op, llvm::ArrayRef<int64_t> positions)> read;
  /// Elements of a flat value whose type leaves that open, and where it begins in its bucket.
  int64_t length = 0, start = 0;
};

/// Positions by value.
using WantedElements = llvm::DenseMap<mlir::Value, std::vector<int64_t>>;

/// Values of `wanted`, as the interpreter gives them in Precision::F32, without the tensors that they are part of.
///
/// Why that is the same: an op in a kernel's region moves elements (reshape, transpose, broadcast, slice, pad, concat,
/// barrier), is a constant or an index, reduces along dimensions, or is elementwise. What moves elements is followed by
/// position. An elementwise op computes an element of its result from the elements of its operands at the same place
/// alone, so the interpreter runs it on the chosen elements in one dimension; a reduction it runs on a row per chosen
/// sum, states in blocks of 8-bit codes it encodes on the whole blocks of 256 that chosen elements are in. So every
/// number comes of the rule that the interpreter has for the op, and only for positions that a chosen element depends
/// on. `why` says what stood against it: an op that is none of these, or more elements than kMostChosen.
llvm::FailureOr<llvm::DenseMap<mlir::Value, ChosenElements>>
interpretElements(mlir::Block &region, const WantedElements &wanted, const ElementSource &source, std::string &why);

/// Elements that one call computes with at most, over all values.
inline constexpr int64_t kMostChosen = int64_t(1) << 24;

} // namespace ztc::verification
