// What a group writes for a product in fp8 to read: the matrices that it consists of, and their absolute maxima.
#pragma once
#include "compiler/Dialect/Graph/Fp8.h"
#include "passes/Autodiff/Functions.h"

namespace ztc {

/// What `value`, of a group's body, is written as: itself, or matrices side by side, whose rows are parts of its own.
/// None where these are pieces of such rows, as heads are, or too few to make whole vectors of their maxima.
llvm::SmallVector<mlir::Value> partsOf(mlir::Value value);

/// The absolute maxima of the rows of all `parts` together, (rows, 1), at the builder, the end of their group.
mlir::Value amaxOf(llvm::ArrayRef<mlir::Value> parts, mlir::OpBuilder &builder);

/// The group that also gives `value`, of its body, as its last result; `fusion` is gone.
graph::FusionOp withResult(graph::FusionOp fusion, mlir::Value value);

} // namespace ztc
