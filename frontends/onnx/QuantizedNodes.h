// Weights that a graph has in fewer bits, as weights.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// MatMulNBits and GatherBlockQuantized become a MatMul and a Gather by a weight, and DequantizeLinear of a stored
/// matrix becomes that weight: an initializer with Initializer::quantized, under the name that it had before it was
/// quantised, as far as the quantiser left that. False, with a sentence in `error`, where parts of one do not fit one
/// another, or ztc does not read its form. A DequantizeLinear of anything else stays.
bool readQuantizedNodes(Model &model, std::string &error);

} // namespace ztc::importer
