// What a kernel is made of, as the name of its machine code.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace ztc::codegen {

/// On a function of `@host` or `@gpu`: its content, and where its machine code was found a dictionary from targets to
/// objects. Then it has no body any more.
inline constexpr llvm::StringLiteral kContent = "kernel.content", kObjects = "kernel.objects";
/// On `@gpu`: a dictionary from targets to the images of all its functions, which then have no bodies.
inline constexpr llvm::StringLiteral kImages = "kernel.images";

/// Names functions that become the same machine code: all of one and of what it refers to in its module (operations,
/// attributes, types, the order of uses, which the code generator's choices follow), but not its locations. Empty where
/// something is not written in the function: resources.
std::string contentOf(mlir::func::FuncOp kernel);

} // namespace ztc::codegen
