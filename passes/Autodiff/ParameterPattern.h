// Parameters by a pattern of their checkpoint names.
#pragma once
#include "compiler/Dialect/Graph/Roles.h"

namespace ztc {

/// The parameter arguments whose name, or one of whose tied names, matches the POSIX extended regular expression
/// somewhere. A pattern that is not an expression, or that matches nothing, is an error at the function; `option` is
/// how the message calls it.
llvm::FailureOr<llvm::SmallVector<unsigned>> matchParameters(mlir::func::FuncOp function, llvm::StringRef pattern,
                                                             llvm::StringRef option);

} // namespace ztc
