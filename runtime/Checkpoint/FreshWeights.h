// First values of parameters that no file has.
#pragma once
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Format/FreshValues.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// How the model of a plan begins, as its option `fresh-values` says; none where it says nothing.
StatusOr<std::vector<FreshValues>> freshValuesOf(const plan::Plan &plan);

/// What `values` say of the parameter, by the last of them that its name ends with; else normal with `deviation` where
/// it has two or more dimensions, 0 for biases and 1 for the rest (norms). Numbers are drawn from (seed, name, index)
/// by at most `threads` threads: they do not depend on who asks for which.
ElementSource freshElements(const plan::Parameter &parameter, const std::vector<FreshValues> &values, double deviation,
                            uint64_t seed, uint32_t threads);

} // namespace ztc
