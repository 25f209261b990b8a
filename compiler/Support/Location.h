// Locations are names: the exporter's module path of an op, and what follows from it.
#pragma once
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace ztc {

/// The first name in `location` (the exporter's module path, "model.layers.3.self_attn.q_proj"), through fused
/// locations and call sites; empty where there is none.
std::string scopeOf(mlir::Location location);

/// The transformer block of a module path or parameter name: the N of `layers.N`, `layer.N`, `h.N`, `blocks.N` or
/// `block.N`; -1 where there is none.
int64_t layerOf(llvm::StringRef name);

/// The transformer block of an op by its location; -1 where there is none.
int64_t layerOf(mlir::Location location);

} // namespace ztc
