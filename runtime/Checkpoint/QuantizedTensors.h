// Weights that a checkpoint holds in fewer bits, as transformers saves what bitsandbytes has quantised: X.weight is
// bytes of two elements each, and its scales, maps and shape lie beside it as X.weight.absmax and so on. Of int8
// X.weight is signed bytes and X.SCB its scales.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Safetensors.h"

namespace ztc {

/// What follows the name of a weight in nf4: JSON with its type, block sizes, shape and, where scales are in 8 bits,
/// their mean.
inline constexpr const char *kNf4State = ".quant_state.bitsandbytes__nf4";

/// Whether a tensor of `files` that a parameter is found as is one of these. Codes of nf4 may be stored as any type
/// (bnb_4bit_quant_storage): what lies beside them tells.
bool isQuantized(const SafetensorsCollection &files, const SafetensorsTensor &tensor);

/// The bytes of the parameter's layout, of what `files` has under its name. Fails, naming tensor and fact, where a part
/// is missing or is not of the form that QuantizedWeight.h describes: other blocks, scales of the other kind.
StatusOr<std::vector<std::byte>> readQuantized(const SafetensorsCollection &files, const plan::Parameter &parameter);

} // namespace ztc
