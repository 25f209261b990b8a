// Files of rewrite patterns: PDLL, which LLVM's mlir-pdll compiles, or the PDL dialect as text.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ztc {

/// The patterns of a file as a module of the PDL dialect. In PDLL `#include` finds definitions of ops and
/// passes/Patterns/Native.pdll where ztc's headers are. Null, after a diagnostic, where the file cannot be read or
/// compiled, names an op that its dialect does not have, or has no pattern.
mlir::OwningOpRef<mlir::ModuleOp> readPatterns(mlir::MLIRContext &context, llvm::StringRef file);

} // namespace ztc
