// Options whose values plugins may add to.
#pragma once
#include "compiler/Driver/Options.h"

namespace ztc::driver {

/// Whether --optimizer and --recompute name what ztc or a plugin has registered; false with a message to stderr.
bool areRegistered(const CompileOptions &options);

/// Whether --optimizer names one that makes the directions of matrices orthogonal
/// (graph::OptimizerRule::orthogonalizes), as muon does.
bool orthogonalizes(const CompileOptions &options);

} // namespace ztc::driver
