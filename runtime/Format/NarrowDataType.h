// Which of the plan's types are narrow floating-point types.
#pragma once
#include "runtime/Core/FloatArrays.h"
#include "runtime/Format/plan.pb.h"
#include <optional>

namespace ztc {

/// bf16 and f16 as array conversions know them; nothing for other types.
inline std::optional<NarrowType> narrowDataType(plan::DataType type) {
  if (type == plan::BF16)
    return NarrowType::Bf16;
  if (type == plan::F16)
    return NarrowType::F16;
  return std::nullopt;
}

} // namespace ztc
