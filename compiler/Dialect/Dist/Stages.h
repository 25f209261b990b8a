// What the ZeRO stages mean for the arguments of a step's functions (RationaleDist.md, "The stages").
#pragma once
#include "llvm/ADT/StringRef.h"

namespace ztc::dist {

inline constexpr unsigned kLastZeroStage = 3;

/// Whether an argument of this role (parameter_bucket, gradient_bucket, state_bucket, master_bucket) of the
/// function of this name is a shard at ZeRO stage `stage`; else it is a whole bucket.
inline bool isShardedAt(unsigned stage, llvm::StringRef function, llvm::StringRef role) {
  if (role == "parameter_bucket")
    return stage == 3;
  if (role == "gradient_bucket") // an update sees what has been reduced, wherever that lies
    return stage >= 2 || function == "update";
  return stage >= 1;
}

/// Whether a local gradient adds up over the micro-steps before it is reduced, once; else each is reduced at once.
inline bool reducesOnlyLast(unsigned stage) {
  return stage <= 1;
}

} // namespace ztc::dist
