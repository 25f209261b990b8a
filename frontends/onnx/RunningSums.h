// Running sums of a model's own numbers, and what they decay: f32 in every precision.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// Marks running sums of floats, and their differences, as f32 in 16-bit plans: an exponential
/// of them is computed in f32 and then rounded. Layers
/// that forget (Mamba 2, the gated delta rule) take exp(s_i - s_j) of them: where s is -60, bf16 has steps of 1/4, and
/// the share would be off by a quarter. Models compute it in f32 (`.float()`), of which an export in f32 has no trace.
void keepRunningSums(Model &model);

} // namespace ztc::importer
