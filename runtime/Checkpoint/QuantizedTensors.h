// Weights that a checkpoint holds in fewer bits. What bitsandbytes has quantised and transformers has saved is loaded
// as it is: X.weight is bytes of two elements each, and its scales, maps and shape lie beside it as X.weight.absmax and
// so on; of int8 X.weight is signed bytes and X.SCB its scales. All else is dequantised (QuantizedMatrices.h).
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedMatrices.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Safetensors.h"
#include <memory>

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

/// The files of a checkpoint, and which of its weights are dequantised. Spans and pointers into it hold as long as it
/// does.
struct QuantizedCheckpoint {
  SafetensorsCollection files;
  QuantizedMatrices matrices;

  /// `config` says how codes are read.
  static StatusOr<std::shared_ptr<const QuantizedCheckpoint>> open(const std::string &path, const std::string &stem,
                                                                   const QuantizationConfig &config);
};

/// Null where `checkpoint` does not have the parameter so, else the weight, which keeps the checkpoint. Fails, naming
/// what, where its parts do not fit together or it has another shape than the parameter.
StatusOr<std::shared_ptr<const QuantizedMatrix>>
findQuantized(const std::shared_ptr<const QuantizedCheckpoint> &checkpoint, const plan::Parameter &parameter);

} // namespace ztc
