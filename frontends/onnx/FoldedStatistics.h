// Constants that an exporter computed from all of a matrix: norms, sums of squares and means of its rows or columns.
#pragma once
#include "frontends/onnx/Names.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::importer {

/// Replaces each constant that holds the norms (or sums of squares, or means) of the rows or columns of a matrix, of
/// the checkpoint (null for none) or of the graph under its own name, by nodes that compute them from it:
/// the matrix is trained through them too. A single number is held against the norm of all of a matrix. Values prove
/// it. Each replacement is a sentence in `notes`.
void restoreFoldedStatistics(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                             std::vector<std::string> &notes);

} // namespace ztc::importer
