// What of an adapter begins as numbers of the model that it is trained beside.
#pragma once
#include "runtime/Checkpoint/Weights.h"
#include <vector>

namespace ztc {

/// The norms with which a fresh magnitude vector (DoRA) begins: those of the weight and its adapter, which is fresh
/// too. W is what the adapter is trained beside, see openFrozenModel().
StatusOr<std::vector<float>> freshMagnitude(const plan::Plan &plan, const plan::Parameter &magnitude,
                                            const ModelSource &model, const WeightOptions &options);

/// The rows with which trained rows of a table begin: the table's.
StatusOr<std::vector<float>> freshTokenRows(const plan::Plan &plan, const plan::Parameter &rows,
                                            const ModelSource &model);

} // namespace ztc
