#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-codegen"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYCODEGEN
#include "passes/Verify/Passes.h.inc"

namespace {
struct VerifyCodegen : impl::VerifyCodegenBase<VerifyCodegen> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    SymbolTable symbols(getOperation());
    for (auto kernel : getOperation().getOps<plan_ir::KernelOp>())
      if (failed(checkKernel(symbols, kernel)))
        return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getBody().front())
        if (failed(checkOp(symbols, &op)))
          return signalPassFailure();
  }

  /// (K3)
  static LogicalResult checkKernel(SymbolTable &symbols, plan_ir::KernelOp kernel) {
    if (kernel.getImages().empty())
      return kernel.emitOpError("K3: has no image");
    for (Attribute version : kernel.getImages()) {
      auto device = dyn_cast<DictionaryAttr>(version);
      auto image = device ? device.getAs<FlatSymbolRefAttr>("image") : dyn_cast<FlatSymbolRefAttr>(version);
      if (!image)
        return kernel.emitOpError("K3: has a version that names no image");
      // A processor's version is a dictionary where it says that it comes from outside, and has no launch.
      const auto outside = device ? device.getAs<StringAttr>("outside") : StringAttr();
      const bool isHost = outside && outside.getValue() == "host";
      for (StringRef field : {"block_threads", "units_per_block", "shared_bytes", "registers", "local_bytes"})
        if (device && !isHost && !device.getAs<IntegerAttr>(field))
          return kernel.emitOpError("K3: its version in ") << image << " has no " << field;
      if (!symbols.lookup<plan_ir::ImageOp>(image.getAttr()))
        return kernel.emitOpError("K3: there is no image ") << image;
    }
    return success();
  }

  static LogicalResult checkOp(SymbolTable &symbols, Operation *op) {
    if (isa<graph::FusionOp>(op)) {
      auto launches = op->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
      if (!launches || launches.empty())
        return op->emitOpError("K1: has no launches");
      for (auto launch : launches.getAsRange<kernel::ScheduleAttr>())
        if (!symbols.lookup<plan_ir::KernelOp>(launch.getKernel().getAttr()))
          return op->emitOpError("K1: there is no kernel ") << launch.getKernel();
    }
    auto services = op->getAttrOfType<DictionaryAttr>(plan_ir::kServiceKernels);
    if (!services && isa<graph::AttentionOp, graph::AttentionGradOp, graph::LinearCrossEntropyOp>(op))
      return op->emitOpError("K2: has no service kernels");
    for (NamedAttribute entry : services ? services.getValue() : ArrayRef<NamedAttribute>()) {
      Attribute single = entry.getValue();
      auto list = dyn_cast<ArrayAttr>(single); // those of GPUs
      for (Attribute kernel : list ? list.getValue() : ArrayRef<Attribute>(single)) {
        auto symbol = dyn_cast<FlatSymbolRefAttr>(kernel);
        if (!symbol || !symbols.lookup<plan_ir::KernelOp>(symbol.getAttr()))
          return op->emitOpError("K2: there is no kernel ") << kernel;
      }
    }
    return success();
  }
};
} // namespace
} // namespace ztc
