// Products of rows that belong to groups, on a GPU: what a block computes, and the two ways to do it. See
// runtime/Format/ServiceKernels.md.
#pragma once
#include "compiler/Codegen/BlockKernel.h"

namespace ztc::codegen {

/// A matrix of a block's product as the block sees it: its outer dimension is rows of the product (a) or columns (b).
struct GroupedFactor {
  mlir::Value start;                ///< the block's first element
  mlir::Value stride;               ///< i64: elements between rows in memory
  mlir::Value outerLeft, innerLeft; ///< i32: how far there is something, from the block's first element on
  bool isCrossed = false;           ///< a row in memory goes along the outer dimension
};

/// C = A B of a tile of a group's product.
struct GroupedTile {
  GroupedFactor a, b;
  mlir::Value c, stride;             ///< the block's first element; i64: elements between rows
  mlir::Value rowsLeft, columnsLeft; ///< i32
  mlir::Value inner;                 ///< i32
  mlir::Value adds;                  ///< i1: whether c is added to; null: never
};

/// Writes a kernel: finds the block's tile, of `side` rows and columns, and has it computed where there is one.
void emitGroupedTile(BlockKernel &kernel, const GroupedGemmForm &form, int64_t side,
                     llvm::function_ref<void(const GroupedTile &)> compute);

inline constexpr int64_t kGroupedMmaThreads = 128, kGroupedFmaThreads = 256;
/// By multiply-adds, of f32: a tile of 64 rows and columns in a block of kGroupedFmaThreads. What the block has written
/// before the call, the product reads; what it writes, the block sees after a barrier.
void emitFmaTile(BlockKernel &kernel, const GroupedTile &tile);
/// By matrix instructions, of bf16 and f16.
void emitGroupedMma(BlockKernel &kernel, const GroupedGemmForm &form);

} // namespace ztc::codegen
