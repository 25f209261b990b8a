// What an export takes from the checkpoint itself: tensors that are not trained and that the plan holds in fewer bits.
#pragma once
#include "runtime/Checkpoint/TensorFiles.h"

namespace ztc {

/// Writes the bytes that `checkpoint`, or without one the file that the plan names, has of parameters without training
/// over those in the file at `path`, which `planned` describes and which is complete: of each whose slot is narrower
/// than its type in both files, and whose elements there are the checkpoint's, rounded to the slot's type. What has
/// other values, because other weights were loaded, stays. One rank's.
Status restoreFrozenTensors(const plan::Plan &plan, const SafetensorsCollection *checkpoint, const PlannedFile &planned,
                            const std::string &path);

} // namespace ztc
