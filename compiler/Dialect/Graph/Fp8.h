// Ops of products in fp8. Graph.h does not have them, so that the few files that know them include this.
#pragma once
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "runtime/Core/Fp8.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphFp8.h.inc"

namespace ztc::graph {

/// Product, in precision fp8 until its operands are quantised: the format of cotangents' codes, a type.
inline constexpr llvm::StringLiteral kFp8 = "graph.fp8";

/// Module, in precision fp8: the scales of activations and cotangents are those of the step before.
inline constexpr llvm::StringLiteral kDelayedScaling = "graph.delayed_scaling";

/// Of delayed scaling, states of the step that belong to no parameter (role `state` and graph.state), records of
/// kFp8ScaleRecord numbers of f32, one for each scaled matrix: the absolute maxima that are known from the step before,
/// which @microstep reads and @update replaces, and those of this step, which @microstep gives and @update reads.
inline constexpr llvm::StringLiteral kFp8Amax = "fp8_amax", kFp8Maxima = "fp8_maxima";
/// Of @microstep's argument of kFp8Amax: an array with, for each record, an array of the names that checkpoints know
/// the matrix by.
inline constexpr llvm::StringLiteral kFp8Names = "graph.fp8_names";
inline bool isFp8State(llvm::StringRef state) {
  return state == kFp8Amax || state == kFp8Maxima;
}

/// Whether `type`, or its elements, are codes of 8 bits.
inline bool isFp8(mlir::Type type) {
  return llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(mlir::getElementTypeOrSelf(type));
}

/// Whether `op` computes the product of two matrices, of whatever type, or with a sum, or of groups of rows.
inline bool isProduct(mlir::Operation *op) {
  return llvm::isa_and_nonnull<MatmulOp, MatmulAddOp, MatmulBiasOp, MatmulGeluOp, ScaledMatmulOp, GroupedMatmulOp,
                               GroupedOuterOp>(op);
}

/// Whether `op` finds the absolute maxima of a parameter's rows, for all codes that are made of it: they are few, and
/// kept.
inline bool isAmaxOfWeight(mlir::Operation *op) {
  return llvm::isa_and_nonnull<RowAmaxOp>(op);
}

/// Whether `op` makes the codes that a product reads of a matrix, whatever its scale comes from.
inline bool isEncoding(mlir::Operation *op) {
  return llvm::isa_and_nonnull<QuantizeFp8Op, EncodeFp8Op>(op);
}

/// Whether `op` makes of a parameter what a product reads, in front of the product: what it gives is never kept.
inline bool isMadeOfWeight(mlir::Operation *op) {
  if (auto quantize = llvm::dyn_cast_or_null<QuantizeFp8Op>(op))
    return quantize.getWeight();
  return llvm::isa_and_nonnull<DequantizeOp, TransposeCodesOp>(op);
}

} // namespace ztc::graph
