// Second names of tensors that the file holds once.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// TorchScript keeps one of several equal tensors, and an Identity node gives the value of each other one. Readers of
/// one without a name of its own (onnx::MatMul_652) read the tensor itself afterwards: where a module is called twice,
/// its folded matrix is one parameter. A named one stays a value: it is a parameter that has been merged away.
void readAliases(Model &model);

} // namespace ztc::importer
