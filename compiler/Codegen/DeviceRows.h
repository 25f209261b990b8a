// What kernels for GPUs that take rows by index share: indices, their faults, and sums over a warp's lanes.
#pragma once
#include "compiler/Codegen/BlockKernel.h"
#include <utility>

namespace ztc::codegen {

/// An index of a row, i32 in memory, as i64, and whether it is one of `rows` (i64).
std::pair<mlir::Value, mlir::Value> loadIndex(BlockKernel &k, mlir::Value indices, mlir::Value position,
                                              mlir::Value rows);
/// Notes an index that is none in the word at `fault`: (position + 1) * 2^32 + the index.
void noteFault(BlockKernel &k, mlir::Value fault, mlir::Value position, mlir::Value index);

/// The i32 that lane `lane` (i32) has. All lanes of the warp must come by, as for what follows.
mlir::Value fromLane(KernelBuilder &b, mlir::Value value, mlir::Value lane);
/// The sum of an i32 over this lane and those before it.
mlir::Value sumToLane(KernelBuilder &b, mlir::Value value, mlir::Value lane);
/// What a warp's lanes have written to shared memory, its others see from here on.
void syncWarp(KernelBuilder &b);
/// i32: how many bits are set, and the number of the lowest one (32 where none is).
mlir::Value countBits(KernelBuilder &b, mlir::Value bits);
mlir::Value lowestBit(KernelBuilder &b, mlir::Value bits);

} // namespace ztc::codegen
