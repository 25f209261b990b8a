// Ties that exporters break: the head's matrix as a transposed copy of the embedding table.
#pragma once
#include "frontends/onnx/Emitter.h"

namespace ztc::importer {

/// Makes one parameter of an embedding table and a head with equal elements. Where the elements are not there, tensors
/// that are the same place of a file are equal; of others `configTies` (tie_word_embeddings of config.json) decides:
/// two places may hold one matrix twice, as exporters write a tie.
void restoreTies(Emitter &emitter, const Model &model, bool configTies, ImportReport &report);

} // namespace ztc::importer
