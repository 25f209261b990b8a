// Which of the plan's types are codes in fp8.
#pragma once
#include "runtime/Core/Fp8.h"
#include "runtime/Format/plan.pb.h"
#include <optional>

namespace ztc {

/// e4m3 and e5m2 as the arithmetic knows them; nothing for other types.
inline std::optional<Fp8Format> fp8DataType(plan::DataType type) {
  if (type == plan::E4M3)
    return Fp8Format::E4m3;
  if (type == plan::E5M2)
    return Fp8Format::E5m2;
  return std::nullopt;
}

} // namespace ztc
