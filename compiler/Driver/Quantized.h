// Folders whose weights bitsandbytes has quantised.
#pragma once
#include "compiler/Driver/Options.h"
#include "frontends/huggingface/Folder.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc::driver {

/// Tells the parameters of @forward that a folder has in fewer bits where they are, and that they stay so (and
/// `options.quantize` the format). An error where nothing is trained beside them, or --quantize asks for another
/// format.
llvm::LogicalResult attachQuantized(mlir::ModuleOp module, const std::vector<huggingface::QuantizedTensor> &tensors,
                                    CompileOptions &options);

} // namespace ztc::driver
