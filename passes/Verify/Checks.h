// Checks that several phases share. Each returns failure after a located diagnostic that names the constraint.
#pragma once
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc {

/// The module's functions are exactly these, each with a body, and nothing else stands at its top level.
llvm::LogicalResult checkFunctions(mlir::ModuleOp module, llvm::StringRef constraint,
                                   llvm::ArrayRef<graph::Entry> entries);

/// The body holds ops of the graph dialect only (and the return).
llvm::LogicalResult checkOnlyGraphOps(mlir::func::FuncOp function, llvm::StringRef constraint);

/// Argument roles, in order; a role that ends in "..." may repeat, also not at all. Arguments of roles that repeat need
/// a name.
llvm::LogicalResult checkRoles(mlir::func::FuncOp function, llvm::StringRef constraint,
                               llvm::ArrayRef<llvm::StringRef> roles);

/// One expected result; `name` is empty where none is expected.
struct ExpectedResult {
  llvm::StringRef result, name;
  mlir::Type type;
};
llvm::LogicalResult checkResults(mlir::func::FuncOp function, llvm::StringRef constraint,
                                 llvm::ArrayRef<ExpectedResult> expected);

} // namespace ztc
