// Part of the plan validator: where a parameter's values come from.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <string>

namespace ztc {

/// Whether a parameter's source is one that loading can follow: known kinds, sizes that fit, no overflow. `count`:
/// elements that the checkpoint has of the parameter; `where` begins each message. Looks at no file.
Status checkSource(const plan::Parameter &parameter, uint64_t count, const std::string &where);

} // namespace ztc
