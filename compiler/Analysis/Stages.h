// What the ZeRO stages mean for the arguments of a step's functions (RationaleDist.md, "The stages").
#pragma once
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"

namespace ztc::dist {

inline constexpr unsigned kLastZeroStage = 3;

/// Whether an argument of this role, which is a bucket's, of the function is a shard at ZeRO stage `stage`; else it is
/// a whole bucket.
inline bool isShardedAt(unsigned stage, mlir::func::FuncOp function, graph::Role role) {
  if (role == graph::Role::ParameterBucket)
    return stage == 3;
  if (role == graph::Role::GradientBucket) // an update sees what has been reduced, wherever that lies
    return stage >= 2 || graph::isEntry(function, graph::Entry::Update) ||
           graph::updatesInBackward(function->getParentOfType<mlir::ModuleOp>());
  return stage >= 1;
}

/// Whether a local gradient adds up over the micro-steps before it is reduced, once; else each is reduced at once: so
/// it is at every stage where updates are in the backward, of one micro-step.
inline bool reducesOnlyLast(unsigned stage, mlir::ModuleOp module) {
  return stage <= 1 && !graph::updatesInBackward(module);
}

} // namespace ztc::dist
