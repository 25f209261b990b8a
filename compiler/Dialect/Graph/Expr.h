// Formulas over tensors: the language of the derivative table and of decompositions.
#pragma once
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace ztc::graph {

/// A tensor value in a formula. An operator emits one graph op at the builder's insertion point; operands of one
/// operator have one type, and a number beside a tensor stands for a constant of the tensor's type.
class Expr {
public:
  Expr(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value) : b(&builder), location(loc), tensor(value) {}

  mlir::Value value() const { return tensor; }
  mlir::OpBuilder &builder() const { return *b; }
  mlir::Location loc() const { return location; }
  mlir::RankedTensorType type() const { return mlir::cast<mlir::RankedTensorType>(tensor.getType()); }
  int64_t rank() const { return type().getRank(); }
  int64_t dim(int64_t i) const { return type().getDimSize(i); }
  mlir::Type elementType() const { return type().getElementType(); }

  /// Another tensor in the same place.
  Expr with(mlir::Value value) const { return Expr(*b, location, value); }

private:
  mlir::OpBuilder *b;
  mlir::Location location;
  mlir::Value tensor;
};

Expr operator+(const Expr &a, const Expr &b);
Expr operator-(const Expr &a, const Expr &b);
Expr operator*(const Expr &a, const Expr &b);
Expr operator/(const Expr &a, const Expr &b);
Expr operator-(const Expr &x);

Expr operator+(const Expr &a, double b);
Expr operator-(const Expr &a, double b);
Expr operator*(const Expr &a, double b);
Expr operator/(const Expr &a, double b);
Expr operator+(double a, const Expr &b);
Expr operator-(double a, const Expr &b);
Expr operator*(double a, const Expr &b);
Expr operator/(double a, const Expr &b);

/// Comparisons give i1 tensors.
Expr operator>=(const Expr &a, const Expr &b);
Expr operator<=(const Expr &a, const Expr &b);
Expr operator>(const Expr &a, const Expr &b);
Expr operator<(const Expr &a, const Expr &b);
Expr operator==(const Expr &a, const Expr &b);
/// Of two i1 tensors.
Expr operator&(const Expr &a, const Expr &b);

Expr select(const Expr &condition, const Expr &a, const Expr &b);
Expr exp(const Expr &x);
Expr log(const Expr &x);
Expr sqrt(const Expr &x);
Expr rsqrt(const Expr &x);
Expr sigmoid(const Expr &x);
Expr sin(const Expr &x);
Expr cos(const Expr &x);
Expr power(const Expr &x, double exponent);
Expr tensorPower(const Expr &a, const Expr &b);
Expr tanh(const Expr &x);
/// Toward zero.
Expr truncate(const Expr &x);

/// `number` in every element of a tensor of `like`'s type.
Expr constantLike(const Expr &like, double number);
Expr zeroLike(const Expr &like);
/// `number` in every element of a tensor of `type`; where a dimension is dynamic, a scalar that is broadcast.
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type, double number);

/// Another element type; x itself where it has it.
Expr castTo(const Expr &x, mlir::Type elementType);
/// In the type that `x` is computed in: a narrow float becomes f32.
Expr widen(const Expr &x);
/// Another shape for the same elements; x itself where it has it.
Expr reshape(const Expr &x, llvm::ArrayRef<int64_t> shape);
Expr transpose(const Expr &x, llvm::ArrayRef<int64_t> permutation);
/// Repeats dimensions of size 1 and adds leading ones; x itself where it has the shape.
Expr broadcast(const Expr &x, llvm::ArrayRef<int64_t> shape);
/// Broadcast to the shape of `like`.
Expr broadcastLike(const Expr &x, const Expr &like);
Expr slice(const Expr &x, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes);
/// The part [offset, offset + size) of the last dimension.
Expr sliceLast(const Expr &x, int64_t offset, int64_t size);
Expr concat(llvm::ArrayRef<Expr> parts, int64_t axis);
/// Reductions keep their dimensions, with size 1.
Expr reduceSum(const Expr &x, llvm::ArrayRef<int64_t> axes);
Expr reduceSumLast(const Expr &x);
Expr reduceMaxLast(const Expr &x);
Expr matmul(const Expr &a, const Expr &b, bool transposeA = false, bool transposeB = false);
/// The product of narrow factors as it is added up, in f32.
Expr wideMatmul(const Expr &a, const Expr &b, bool transposeA = false, bool transposeB = false);

} // namespace ztc::graph
