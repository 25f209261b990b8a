// --adapter and --lora: what a PEFT configuration asks for, as modules of the model that was imported.
#pragma once
#include "compiler/Driver/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc::driver {

/// Reads the adapter that `options` name, finds its modules among the parameters of @forward, and leaves both in the
/// module: `graph.adapters` for ztc-insert-adapters and `graph.adapter_config` for the plan. `hfConfig` is the text of
/// the model's config.json, `folder` where it lies; both may be empty. `notes` gets what is trained and what is
/// frozen. Errors are diagnostics.
llvm::LogicalResult attachAdapter(mlir::ModuleOp module, const CompileOptions &options, llvm::StringRef hfConfig,
                                  llvm::StringRef folder, std::vector<std::string> &notes);

} // namespace ztc::driver
