// The value of a tensor in the reference interpreter.
#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <vector>

namespace ztc {

/// A dense tensor in row-major order. Every float type is held in double, and so is a state in blocks of 8-bit codes,
/// as the numbers that these stand for; every integer type (i1 too: 0 or 1) in int64; exactly one of the two vectors is
/// used, the one that `elementType` asks for.
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  mlir::Type elementType;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  Tensor() = default;
  /// Zeros of this shape and element type.
  Tensor(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);
  /// Zeros of a static type.
  explicit Tensor(mlir::RankedTensorType type) : Tensor(type.getShape(), type.getElementType()) {}
  /// A scalar (rank 0) of a float type.
  static Tensor scalar(double value, mlir::Type elementType);
  /// The elements of a dense, splat or resource attribute; fails, without a diagnostic, for any other kind.
  static llvm::FailureOr<Tensor> fromAttribute(mlir::ElementsAttr attribute);

  bool isReal() const { return !llvm::isa<mlir::IntegerType>(elementType); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t count() const;
  /// Row-major strides in elements.
  llvm::SmallVector<int64_t> strides() const;
  /// The same elements under another shape of equal count.
  Tensor reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// The type that describes this value.
  mlir::RankedTensorType type() const { return mlir::RankedTensorType::get(shape, elementType); }
};

/// `value` rounded to nearest even in `type` (f16, bf16, f32; f64 leaves it). A narrow type rounds through f32, as
/// kernels do.
double roundTo(double value, mlir::Type type);

/// Whether elements of `type` are stored in fewer bits than f32 has.
bool isStoredNarrow(mlir::Type type);
/// The numbers of `tensor`, whose elements are block8, as its blocks of 256 hold them: rounded in place.
void roundToBlocks(Tensor &tensor);

/// Walks all index tuples of `shape` in row-major order: `visit(linear, index)`.
template <typename Visit> void forEachIndex(llvm::ArrayRef<int64_t> shape, Visit &&visit) {
  int64_t total = 1;
  for (int64_t size : shape)
    total *= size;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t linear = 0; linear < total; ++linear) {
    visit(linear, llvm::ArrayRef<int64_t>(index));
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

} // namespace ztc
