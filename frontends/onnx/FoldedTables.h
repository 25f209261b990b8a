// Learned positions that an exporter with static shapes looked up once and left as a constant, and parameters that it
// spread over batch or sequence: parameters again.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// Replaces each constant that holds consecutive rows of one of the checkpoint's tables, and is added to data, by these
/// rows of the table, and each that holds all elements of a parameter that nothing else reads, repeated along
/// dimensions, by the parameter. `weights` is the checkpoint, empty for none; `positionLimit` of config.json, 0 where
/// it is not known, proves the rows of a table with as many where the checkpoint has other values. Each replacement is
/// a sentence in `notes`. False, with a sentence in `error`, for a constant that the exporter calls a looked up row, or
/// that is added to the tokens' rows as positions are, and that cannot be traced.
bool restoreFoldedTables(Model &model, const std::string &weights, int64_t positionLimit,
                         std::vector<std::string> &notes, std::string &error);

} // namespace ztc::importer
