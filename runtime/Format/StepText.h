// Steps as people read them: in `ztc inspect`, profiles and traces.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <string>

namespace ztc {

/// Name of the kind and its sizes: "gemm 512x256x688 bT", "launch rms_norm.3f2a, 512 units". Indices that the plan does
/// not have are "?".
std::string stepKindText(const plan::Plan &plan, const plan::Step &step);

/// What runs, whoever calls it: equal for the steps of equal layers. As stepKindText, for kernels name and form.
std::string stepCallText(const plan::Plan &plan, const plan::Step &step);

} // namespace ztc
