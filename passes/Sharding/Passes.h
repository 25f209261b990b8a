// Phase `shard`: how parameters, gradients and states lie in memory and on the mesh.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <optional>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Sharding/Passes.h.inc"

/// Options of phase `shard`.
struct ShardOptions {
  std::optional<unsigned> zero; ///< ZeRO stage; absent: plain buckets for one rank, no mesh
};

/// Adds the passes of phase `shard`, without its verifier.
void populateShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options = {});

} // namespace ztc
