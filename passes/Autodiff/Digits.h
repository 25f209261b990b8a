// Positions in row-major tensors by their digits: which row, which expert, which choice an element belongs to, whatever
// dimensions the tensor has.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace ztc {

/// A part of the position p in a row-major tensor: p / stride % size.
struct Digit {
  int64_t stride, size;
  bool operator==(const Digit &other) const { return size == other.size && (size == 1 || stride == other.stride); }
};

/// Where a digit of a tensor of the shape `from` lies in one of the shape `to`, which has dimension i of it at
/// `placeOf[i]`; nothing where it is a part of several dimensions, or of one whose size changes.
std::optional<Digit> movedDigit(Digit digit, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                llvm::ArrayRef<int64_t> placeOf);

/// The same where dimensions are aligned from the right, as a broadcast has them.
std::optional<Digit> repeatedDigit(Digit digit, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// The number that every element of a constant has, reshaped and repeated or not.
std::optional<double> splatOf(mlir::Value value);

/// Indices into rows of `count` elements, `perToken` for each of `tokens` rows in turn.
struct RowIndices {
  mlir::Value numbers; ///< the elements' numbers in their rows, (T, K) in whatever shape
  int64_t tokens, perToken, count;
};

/// `indices` into `elements` elements as such; nothing where they are others.
std::optional<RowIndices> rowIndices(mlir::Value indices, int64_t elements);

/// The digit that an integer (or what is cast from one) counts: element p is p / stride % size. Nothing where it is
/// another number.
std::optional<Digit> countedDigit(mlir::Value value);

/// The digit that a number counts down from `end`: element p is end - p / stride % size.
std::optional<Digit> countedDownDigit(mlir::Value value, double end);

} // namespace ztc
