// An optimizer from outside: Adagrad (Duchi et al. 2011) with decoupled weight decay. Its one state, the sum of squared
// gradients, has a name of its own and is never negative. Masters, clipping, which parameters decay, how states are
// stored, ZeRO stages, checkpoints and kernels are those of AdamW.
//   ztc compile MODEL --load-pass-plugin=Adagrad.so --optimizer=adagrad -o plan.bin
//   ztc-run plan.bin --lr 1e-2 --epsilon 1e-10 ...
#include "compiler/Dialect/Graph/Optimizers.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using ztc::StepParameter;
using namespace ztc::graph;

/// s' = s + g g; p' = p (1 - lr decay) - lr g / (sqrt(s') + epsilon).
static OptimizerUpdate adagrad(const OptimizerTerms &terms) {
  const Expr &g = terms.gradient;
  Expr newSum = terms.states[0] + g * g;
  Expr change = terms.hyper(StepParameter::LearningRate) * g / (sqrt(newSum) + terms.hyper(StepParameter::Epsilon));
  return {{newSum}, terms.decayed() - change};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "adagrad", "1.0", [] {
            (void)registerOptimizer(
                {.name = "adagrad", .states = {{"sum", /*isSigned=*/false}}, .flops = 8, .update = adagrad});
          }};
}
