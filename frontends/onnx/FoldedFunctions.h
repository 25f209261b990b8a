// Constants that an exporter computed from parameters, 1 - w or exp(w): functions of the parameters again.
#pragma once
#include "frontends/onnx/Names.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::importer {

/// Replaces each constant of floats that is a known function of one tensor, of the checkpoint (null for
/// none) or of the graph under its own name, by nodes that compute it from that tensor, which so becomes a parameter.
/// Values prove it, to the last bits; a single number needs the exporter's word that it was computed. 1 + w and c * w
/// in the place of a parameter stay: what holds weights against a checkpoint undoes them. Each replacement is a
/// sentence in `notes`. False, with a sentence in `error`, for a constant that is a function of more than one tensor's
/// values, and for a computed number that may come from a parameter by a function that is not known.
bool restoreFoldedFunctions(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                            std::vector<std::string> &notes, std::string &error);

} // namespace ztc::importer
