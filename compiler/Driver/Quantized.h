// Folders whose weights are stored in fewer bits.
#pragma once
#include "compiler/Driver/Options.h"
#include "frontends/huggingface/Folder.h"
#include "frontends/onnx/Import.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc::driver {

/// What a report of the import says of these weights: where they are, in what form, and of those that loading
/// dequantises in which type they are exported.
void describeQuantized(ImportReport &report, const std::vector<huggingface::QuantizedTensor> &tensors,
                       llvm::StringRef dequantizedType, const CompileOptions &options);

/// Tells the parameters of @forward that a folder has in fewer bits where they are. Those that loading dequantises are
/// as any other; those that bitsandbytes has quantised stay so (and `options.quantize` says the format). Of these it is
/// an error where nothing is trained beside them, or --quantize asks for another format.
llvm::LogicalResult attachQuantized(mlir::ModuleOp module, const std::vector<huggingface::QuantizedTensor> &tensors,
                                    CompileOptions &options);

} // namespace ztc::driver
