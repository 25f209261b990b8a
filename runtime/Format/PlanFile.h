// plan.bin: a small header before one serialized plan.
//
//   offset  0   8 bytes   "ZTCPLAN\0"
//   offset  8   u32       format version
//   offset 12   u32       zero
//   offset 16   u64       payload bytes
//   offset 24   32 bytes  SHA-256 of the payload
//   offset 56             the payload: plan::Plan
//
// Numbers are little-endian.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <string>
#include <string_view>

namespace ztc {

/// Rises with every change that an older ztc-run would misread; plans of another version are refused.
inline constexpr uint32_t kPlanFormatVersion = 8;
inline constexpr uint64_t kPlanHeaderBytes = 56;

/// A plan and what identifies it.
struct LoadedPlan {
  plan::Plan plan;
  std::string sha256; ///< of the payload, 64 hexadecimal digits: the run log's plan_sha256
};

/// Header and payload. Equal plans give equal bytes. Internal where the plan is too large to serialize (2 GiB).
StatusOr<std::string> serializePlan(const plan::Plan &plan);
/// Reads what serializePlan made and validates it. `name` stands for the file in messages.
StatusOr<LoadedPlan> parsePlan(std::string_view bytes, const std::string &name);

/// Validates and writes; `path` keeps its old content on any failure.
Status writePlanFile(const plan::Plan &plan, const std::string &path);
/// NotFound, InvalidArgument (no plan), FailedPrecondition (newer version), DataLoss (truncated, corrupted, invalid).
StatusOr<LoadedPlan> readPlanFile(const std::string &path);

} // namespace ztc
