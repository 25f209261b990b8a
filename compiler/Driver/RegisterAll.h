// The only place that names every dialect and every pass.
#pragma once

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace ztc::driver {

/// Registers the dialects that ztc reads and writes.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass of ztc and the general ones of MLIR (canonicalize, cse, symbol-dce, ...) under their names.
void registerAllPasses();

} // namespace ztc::driver
