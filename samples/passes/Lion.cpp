// An optimizer from outside: Lion (Chen et al. 2023, algorithm 2), with one state. Masters, clipping, weight decay,
// states in bf16, ZeRO stages, checkpoints and kernels are those of AdamW.
//   ztc compile MODEL --load-pass-plugin=Lion.so --optimizer=lion -o plan.bin
//   ztc-run plan.bin --lr 1e-4 --beta1 0.9 --beta2 0.99 ...
#include "compiler/Dialect/Graph/Optimizers.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using ztc::StepParameter;
using namespace ztc::graph;

/// m is exp_avg: u = sign(beta1 m + (1 - beta1) g); p' = p - lr (u + decay p); m' = beta2 m + (1 - beta2) g.
static OptimizerUpdate lion(const OptimizerTerms &terms) {
  const Expr &g = terms.gradient, &m = terms.states[0];
  Expr newM = terms.hyper(StepParameter::Beta2) * m + terms.hyper(StepParameter::OneMinusBeta2) * g;
  Expr mixed = terms.hyper(StepParameter::Beta1) * m + terms.hyper(StepParameter::OneMinusBeta1) * g;
  Expr zero = zeroLike(mixed), rate = terms.hyper(StepParameter::LearningRate);
  Expr update = select(mixed > zero, rate, select(mixed < zero, -rate, zero));
  return {{newM}, terms.decayed - update};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "lion", "1.0",
          [] { (void)registerOptimizer({.name = "lion", .states = {"exp_avg"}, .flops = 10, .update = lion}); }};
}
