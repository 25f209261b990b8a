#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"
#include "passes/Kernels/Targets.h"
#include "runtime/Format/PlanValidator.h"

#define DEBUG_TYPE "ztc-map-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MAPKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct MapKernels : impl::MapKernelsBase<MapKernels> {
  using MapKernelsBase::MapKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    MapKernelsBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
    registerStepSources(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<StringRef>> wanted = expandTargets(module, targets);
    if (failed(wanted))
      return signalPassFailure();
    KernelModule kernels(getContext(), {/*host=*/!llvm::all_of(*wanted, isGpuTarget),
                                        /*device=*/llvm::any_of(*wanted, isGpuTarget)});
    FailureOr<std::vector<SelectedKernel>> selected = selectKernels(module, kernels);
    if (failed(selected))
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto add = [&](const std::string &name, const KernelDescription &description, const std::string &text) {
      plan_ir::KernelOp::create(builder, module.getLoc(), name, description.form, builder.getArrayAttr({}), text);
    };
    for (const SelectedKernel &kernel : *selected) {
      const KernelDescription &description = kernel.description;
      add(description.name, description, kernel.text);
      if (description.hasAdd)
        add(description.name + "_add", description, "as " + description.name + ", added to what the results hold");
    }
    builder.insert(kernels.takeKernels().release());
  }
};
} // namespace
} // namespace ztc
