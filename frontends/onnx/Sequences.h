// Sequences of tensors that a graph takes apart again where it stands: plain splits.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// SplitToSequence, SequenceConstruct and what only picks constant elements of them become Split and Identity. What
/// remains is refused with the other ops that ztc does not know.
void foldSequences(Model &model);

} // namespace ztc::importer
