// From one dialect to another.
#ifndef ZTC_CONVERSION
#define ZTC_CONVERSION
include "mlir/Pass/PassBase.td"

def ConvertToPlan : Pass<"ztc-convert-to-plan", "mlir::ModuleOp"> {
  let summary = "Functions with places become programs of steps.";
  let description = [{
    Afterwards the module holds only `plan` ops: model, slots, buckets, parameters, constants, bindings, kernels, images, and one
    program per function with a step per op that does something. Aliases are gone; what a pack leaves uncovered is filled with zeros.

        %y = graph.matmul %x, %w {transpose_b, plan.places = [#plan.place<@y, 0>]} : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
    becomes
        plan.gemm "q_proj matmul" [#plan.operand<read @x, 0, 128>, #plan.operand<read @block0.parameter, 0, 96>, #plan.operand<write @y, 0, 192>] {...}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}
#endif
