// A pass plugin of fifty lines: prints FLOPs and bytes per transformer block of a training step.
//   ztc-opt --load-pass-plugin=LayerCosts.so --pass-pipeline='builtin.module(layer-costs)' step.mlir
//   ztc compile model.onnx --load-pass-plugin=LayerCosts.so -o plan.bin        (runs after phase `backward`)
#include "compiler/Driver/Plugin.h"
#include "compiler/Interfaces/Interfaces.h"
#include "compiler/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/FormatVariadic.h"

namespace {

struct LayerCosts : mlir::PassWrapper<LayerCosts, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LayerCosts)
  llvm::StringRef getArgument() const override { return "layer-costs"; }
  llvm::StringRef getDescription() const override { return "prints FLOPs and bytes per transformer block"; }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<mlir::func::FuncOp>()) {
      std::map<int64_t, std::pair<int64_t, int64_t>> costs; // layer (-1: outside) -> (flops, bytes)
      function.walk([&](ztc::CostOpInterface op) {
        auto &[flops, bytes] = costs[ztc::layerOf(op.getLoc())];
        flops += op.getFlops();
        bytes += op.getBytes();
      });
      llvm::outs() << "@" << function.getName() << "\n";
      for (const auto &[layer, cost] : costs)
        llvm::outs() << llvm::formatv("  {0,-10} {1,16} FLOPs {2,16} bytes\n",
                                      layer < 0 ? "outside" : "layer " + std::to_string(layer), cost.first,
                                      cost.second);
    }
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "layer-costs", "1.0", [] { mlir::PassRegistration<LayerCosts>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::Phase::Backward, [] { return std::make_unique<LayerCosts>(); });
}
