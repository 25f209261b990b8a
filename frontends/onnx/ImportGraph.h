// Any ONNX graph as graph ops, its inputs as data: what single ops are evaluated and tested by.
#pragma once
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// A module with @forward: each input of the graph is an argument of role "data", each output a result, initializers
/// are constants. Inputs need static shapes. Floats are f32, integers i32. Errors are diagnostics of `context`.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importGraph(mlir::MLIRContext &context, const Model &model,
                                                               ImportReport &report);

} // namespace ztc::importer
