// The graph dialect: its ops, and what their definitions share.
#pragma once
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ztc::graph {

/// The number of elements of a ranked tensor value; 0 where a dimension is dynamic.
int64_t elementCount(mlir::Value value);

/// The type of a reduction of `type` (a ranked tensor) over `axes`: size 1 at each of them.
mlir::Type reducedType(mlir::Type type, llvm::ArrayRef<int64_t> axes);

/// The type of op(a) * op(b): a's leading dimensions, then M and N. Ranks below 2 give an unranked tensor, which the
/// verifier refuses.
mlir::Type matmulType(mlir::Type a, mlir::Type b, bool transposeA, bool transposeB);

/// (query, key) pairs that attention with S positions sees: S*S, half of it where causal, a band where a window is set.
int64_t visiblePairs(int64_t sequence, bool causal, int64_t window);

/// Whether elements of the tensor type `type` hold those of `other`: the same element type, or a wider float.
bool isAsWide(mlir::Type type, mlir::Type other);

/// Whether elements of `type` are floats that ops compute on in a wider type.
bool isNarrow(mlir::Type type);

/// The type in which an op computes on elements of `type`: f32 for narrower floats.
mlir::Type computeType(mlir::Type type);

} // namespace ztc::graph

#include "compiler/Dialect/Graph/GraphEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Graph/GraphAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Graph/GraphTypes.h.inc"

#include "compiler/Dialect/Graph/GraphDialect.h.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphOps.h.inc"

namespace ztc::graph {

/// Why a group is what it is, for readers of a plan; empty of a single op.
llvm::StringRef reasonOf(FusionKind kind);

} // namespace ztc::graph
