// Ties that exporters break: the head's matrix as a transposed copy of the embedding table, a matrix that a module
// reads straight and transposed, a tensor that several modules share.
#pragma once
#include "frontends/onnx/Emitter.h"
#include <set>

namespace ztc::importer {

/// Makes one parameter of an embedding table and a head with equal elements. Where the elements are not there, tensors
/// that are the same place of a file are equal; of others `configTies` (tie_word_embeddings of config.json) decides:
/// two places may hold one matrix twice, as exporters write a tie.
void restoreTies(Emitter &emitter, const Model &model, bool configTies, ImportReport &report);

/// Makes one parameter of a matrix whose name is known and of one without a name that holds its transpose: exporters
/// compute the transpose where a model reads a matrix both ways. A matrix that is its own transpose says nothing.
void joinTransposedCopies(Emitter &emitter, const Model &model, const Names &names, ImportReport &report);

/// Takes out of `untrained`, tensors of the exported module that no parameter of the graph stands for, those that a
/// parameter has under another module's name: nodes of their own module read it as what they are called.
void tieShared(Emitter &emitter, const Model &model, const Names &names, std::set<std::string> &untrained,
               ImportReport &report);

} // namespace ztc::importer
