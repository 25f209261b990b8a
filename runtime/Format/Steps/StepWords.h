// Words that the texts of several kinds of steps share.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <string>

namespace ztc {

/// " +=", " += (first micro-step: =)", or nothing.
const char *accumulateText(plan::Accumulate accumulate);
/// " bf16", or nothing for f32, which goes without saying.
std::string typeText(plan::DataType type);
/// In which micro-steps it runs: " (last micro-step only)", ..., or nothing.
const char *lastOnlyText(const plan::Step &step);
/// The name of a bucket, "?" where there is none.
std::string bucketText(const plan::Plan &plan, uint32_t bucket);

} // namespace ztc
