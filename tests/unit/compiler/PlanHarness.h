// A small model and the road from its text to a plan.
#pragma once
#include "compiler/Conversion/Passes.h"
#include "compiler/Target/PlanWriter.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Placement/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Sharding/Passes.h"
#include "passes/Verify/Passes.h"
#include "tests/unit/compiler/GradientCheck.h"
#include <fmt/format.h>
#include <optional>

namespace ztc::test {

/// One block: attention with one head, a norm, a residual. The head is tied or not.
inline std::string modelText(bool tied) {
  std::string head =
      tied ? "" : ", %head: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = \"lm_head.weight\"}";
  return fmt::format(R"(
module attributes {{graph.model = "small", graph.batch = 2 : i64, graph.seq = 3 : i64, graph.vocabulary = 7 : i64, graph.layers = 1 : i64}} {{
  func.func @forward(%tokens: tensor<2x3xi32> {{graph.role = #graph.role<tokens>}},
      %embed: tensor<7x4xf32> {{graph.role = #graph.role<parameter>, graph.name = "embed.weight"}},
      %norm: tensor<4xf32> {{graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.norm.weight"}},
      %qnorm: tensor<4xf32> {{graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.q_norm.weight"}},
      %q: tensor<4x4xf32> {{graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.q_proj.weight"}},
      %k: tensor<4x4xf32> {{graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.k_proj.weight"}}{0})
      -> (tensor<2x3x7xf32> {{graph.result = #graph.result<logits>}}) attributes {{graph.entry = #graph.entry<forward>}} {{
    %flat = graph.reshape %tokens : tensor<2x3xi32> -> tensor<6xi32>
    %x = graph.embedding %embed, %flat : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
    %n = graph.rms_norm %x, %norm, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
    %mq = graph.matmul %n, %q {{transpose_b}} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
    %mk = graph.matmul %n, %k {{transpose_b}} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
    %q4 = graph.reshape %mq : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
    %k4 = graph.reshape %mk : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
    %n4 = graph.reshape %n : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
    %qn = graph.rms_norm %q4, %qnorm, 1.0e-5 : tensor<2x3x1x4xf32>, tensor<4xf32>
    %a = graph.attention %qn, %k4, %n4, 5.0e-1 {{causal}} : tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>
    %a2 = graph.reshape %a : tensor<2x3x1x4xf32> -> tensor<6x4xf32>
    %h = graph.add %x, %a2 : tensor<6x4xf32>
    %y = graph.matmul %h, %{1} {{transpose_b}} : tensor<6x4xf32>, tensor<7x4xf32> -> tensor<6x7xf32>
    %logits = graph.reshape %y : tensor<6x7xf32> -> tensor<2x3x7xf32>
    return %logits : tensor<2x3x7xf32>
  }}
}})",
                     head, tied ? "embed" : "head");
}

/// With `zero` the plan of that ZeRO stage, else one without a mesh.
inline plan::Plan compilePlan(bool tied, bool withKernels, std::optional<unsigned> zero = {}, unsigned prefetch = 1,
                              const PrecisionOptions &precision = {}) {
  using namespace mlir;
  GraphContext context;
  context.context.loadDialect<dist::DistDialect, plan_ir::PlanDialect>();
  OwningOpRef<ModuleOp> module = context.parse(modelText(tied));
  PassManager pm(&context.context);
  populateAutodiffPipeline(pm);
  populatePrecisionPipeline(pm, precision);
  populateShardPipeline(pm, {zero});
  if (zero)
    pm.addPass(createVerifyShard());
  populateFusePipeline(pm);
  pm.addPass(createVerifyFuse());
  populateSchedulePipeline(pm, {prefetch});
  pm.addPass(createVerifySchedule());
  populateAssignPipeline(pm);
  pm.addPass(createVerifyAssign());
  if (withKernels)
    populateCodegenPipeline(pm, {{"x86-64-v3"}});
  populatePlanPipeline(pm);
  pm.addPass(createVerifyPlan());
  EXPECT_TRUE(succeeded(pm.run(*module)));
  PlanOptions options;
  options.ztcVersion = "test";
  options.withKernels = withKernels;
  options.zero = zero.value_or(0);
  options.precision = wordOf(precision.precision);
  FailureOr<plan::Plan> plan = buildPlan(*module, options);
  EXPECT_TRUE(succeeded(plan));
  return succeeded(plan) ? *plan : plan::Plan();
}

} // namespace ztc::test
