// The value of a tensor in the reference interpreter.
#pragma once
#include "compiler/Tensors/DenseTensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ztc {

/// A dense tensor of an MLIR type. Every float type is held in `reals`, and so is a state in blocks of 8-bit codes, as
/// the numbers that these stand for; every integer type (i1 too: 0 or 1) in `integers`.
struct Tensor : DenseTensor {
  mlir::Type elementType;

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

} // namespace ztc
