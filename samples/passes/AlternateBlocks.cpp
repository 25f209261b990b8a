// A policy of recomputation: of every second transformer block only the input is kept. It saves about half of what
// `--recompute=layer` saves, for half of its arithmetic.
//   ztc compile MODEL --load-pass-plugin=AlternateBlocks.so --recompute=alternate -o plan.bin
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "passes/Recompute/Policies.h"

static llvm::FailureOr<ztc::RecomputeChoice> alternate(mlir::func::FuncOp, const ztc::RecomputeCandidates &candidates) {
  const ztc::RecomputeChoice whole = candidates.wholeLayers();
  ztc::RecomputeChoice choice;
  for (const ztc::RecomputeElement &element : candidates.elements())
    if (element.layer % 2 == 0 && whole.has(element.layer, element.group))
      choice.add(element.layer, element.group);
  return choice;
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "alternate-blocks", "1.0",
          [] { (void)ztc::registerRecomputePolicy("alternate", alternate); }};
}
