// A graph's weights held against a checkpoint: what the exporter folded, joined or split is undone, so that what is
// trained and exported are the checkpoint's own tensors.
#pragma once
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/WeightForm.h"

namespace ztc::importer {

/// Explains every parameter by tensors of the checkpoint at `weights` and rewrites @forward to read those: w with
/// 1 + w computed in the graph for an initializer that holds 1 + w, and so on. Values decide where the graph has them;
/// where nearly nothing agrees, or nothing is there, `WeightFacts`. What cannot be explained is an error that names all
/// such tensors. `found`: what else data meet. `family`: model_type of
/// config.json.
llvm::LogicalResult explainWeights(Emitter &emitter, const Model &model, const Names &names,
                                   const FoundParameters &found, const ImportOptions &options, llvm::StringRef family,
                                   ImportReport &report);

/// Rewrites the parameter at `index` of @forward to read `form`'s tensors of shapes `shapes` instead; parameters of the
/// same tensor become one. Gives false where the parameter stays as it is.
bool applyForm(Emitter &emitter, size_t index, const WeightForm &form, llvm::ArrayRef<Shape> shapes);

} // namespace ztc::importer
