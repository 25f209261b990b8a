// Ops of products in fp8. Graph.h does not have them, so that the few files that know them include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "runtime/Core/Fp8.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphFp8.h.inc"

namespace ztc::graph {

/// Product, in precision fp8 until its operands are quantised: the format of cotangents' codes, a type.
inline constexpr llvm::StringLiteral kFp8 = "graph.fp8";

/// Whether `type`, or its elements, are codes of 8 bits.
inline bool isFp8(mlir::Type type) {
  return llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(mlir::getElementTypeOrSelf(type));
}

/// Whether `op` computes the product of two matrices, of whatever type, or with a sum.
inline bool isProduct(mlir::Operation *op) {
  return llvm::isa_and_nonnull<MatmulOp, MatmulAddOp, ScaledMatmulOp>(op);
}

/// Whether `op` finds the absolute maxima of a parameter's rows, for all codes that are made of it: they are few, and
/// kept.
inline bool isAmaxOfWeight(mlir::Operation *op) {
  return llvm::isa_and_nonnull<RowAmaxOp>(op);
}

/// Whether `op` makes of a parameter what a product reads, in front of the product: what it gives is never kept.
inline bool isMadeOfWeight(mlir::Operation *op) {
  if (auto quantize = llvm::dyn_cast_or_null<QuantizeFp8Op>(op))
    return quantize.getWeight();
  return llvm::isa_and_nonnull<DequantizeOp, TransposeCodesOp>(op);
}

} // namespace ztc::graph
