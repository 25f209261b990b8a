// Where the bytes of each parameter are: a checkpoint beside the graph, a data file of the graph, or the graph itself.
#pragma once
#include "frontends/onnx/Emitter.h"

namespace ztc::importer {

/// Names that a parameter may have in a checkpoint, likeliest first: its own, with and without the base model's prefix.
std::vector<std::string> checkpointNames(const Parameter &parameter);

/// Fills graph.source of the parameters of @forward. With `weights` (folder, safetensors file or index) every parameter
/// must be there in its shape; else sources are what the model holds or names. All failures are one diagnostic. A model
/// without weights is a note, but where the frontend that built it has said so.
llvm::LogicalResult attachSources(Emitter &emitter, const Model &model, const ImportOptions &options,
                                  ImportReport &report);

} // namespace ztc::importer
