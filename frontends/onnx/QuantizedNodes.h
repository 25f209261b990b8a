// Weights that a graph has in fewer bits, as weights.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// MatMulNBits and GatherBlockQuantized become a MatMul and a Gather by a weight, and DequantizeLinear of a stored
/// matrix becomes that weight: an initializer with Initializer::quantized, under the name that it had before it was
/// quantised, as far as the quantiser left that. So do MatMulInteger of a stored matrix and of data that a node
/// quantises, and a Gather of codes before its DequantizeLinear, as quantize_dynamic writes them: the data are read as
/// they were before, which is noted. False, with a sentence in `error`, where parts of a weight do not fit one another,
/// or ztc does not read its form. Any other node stays.
bool readQuantizedNodes(Model &model, std::string &error);

} // namespace ztc::importer
