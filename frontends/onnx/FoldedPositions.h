// Constants that an exporter computed from a parameter and positions: slopes times distances, decays.
#pragma once
#include "frontends/onnx/Names.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::importer {

/// Replaces each constant that is f(w) * p, or exp(f(w) * p), of a vector w of the checkpoint that the
/// graph does not read and of whole numbers p that do not depend on w's elements, by nodes that compute it from w,
/// which so is trained. Every element is held against the formula; what a mask hides (-inf, or 0 after the
/// exponential) stays hidden. Each replacement is a sentence in `notes`.
void restoreFoldedPositions(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                            std::vector<std::string> &notes);

} // namespace ztc::importer
