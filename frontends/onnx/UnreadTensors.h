// What a checkpoint has and no parameter of the graph stands for.
#pragma once
#include "frontends/onnx/Import.h"
#include "frontends/onnx/WeightForm.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// Notes the tensors that are not in `used`. One that belongs to a module of which others are trained, and that a
/// constant of the graph may have been computed from, is an error: gives its sentence, else "".
std::string noteUnread(llvm::ArrayRef<TensorView> checkpoint, const llvm::StringSet<> &used,
                       llvm::ArrayRef<const Initializer *> constants, ImportReport &report);

} // namespace ztc::importer
