// How parameters, gradients and states lie in memory and on the mesh.
#ifndef ZTC_PASSES_SHARDING
#define ZTC_PASSES_SHARDING
include "mlir/Pass/PassBase.td"

def FormBuckets : Pass<"ztc-form-buckets", "mlir::ModuleOp"> {
  let summary = "Parameters, gradients and optimizer states become views of flat buckets.";
  let description = [{
    Afterwards no function has a parameter, gradient or state argument: it takes one flat tensor per bucket (roles
    `parameter_bucket`, `gradient_bucket`, `exp_avg_bucket`, `exp_avg_sq_bucket`), parameters are `dist.view`s of them, and
    `@microstep` adds each gradient into the gradient buckets that it takes and returns. `@update` works on whole buckets.

        func.func @eval(%tokens, %targets, %w: tensor<8x4xf32> {graph.role = "parameter", graph.name = "lm_head.weight"})
    becomes
        dist.bucket @head {...}
        func.func @eval(%tokens, %targets, %b: tensor<32xf32> {graph.role = "parameter_bucket", graph.bucket = @head}) {
          %w = dist.view %b[0] : tensor<32xf32> -> tensor<8x4xf32>

    One bucket per transformer block; embedding, untied head and the rest on their own; trainable and frozen apart. Inside: parameters
    with weight decay (without `graph.no_decay`) first; q, k, v and gate, up adjacent.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}
#endif
