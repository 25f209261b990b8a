// Rows that a mask picks, as many as it has true elements: the sums in which they end are over all rows.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// Mixtures of experts as loops have them: `tok, k = torch.where(i == e); y.index_add(0, tok, f(h[tok]) * w[tok, k])`.
/// Afterwards f computes all rows, and what it adds is multiplied by a share that is 0 where the mask is false:
/// y + f(h) * (w * (i == e)).sum(-1), the same sum with sizes that no data decide. A row is picked once: by a mask of
/// one dimension, or where one of the K indices of a top-k has a value. Where an op between the two does not compute
/// row by row, the model stays as it is, and its `unspread` says so.
void spreadPickedRows(Model &model);

} // namespace ztc::importer
