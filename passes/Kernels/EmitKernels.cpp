#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"

#define DEBUG_TYPE "ztc-emit-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_EMITKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {

/// The image's symbol: x86-64-v3 => image.x86-64-v3.
std::string imageSymbol(StringRef target) {
  return ("image." + target).str();
}

struct EmitKernels : impl::EmitKernelsBase<EmitKernels> {
  using EmitKernelsBase::EmitKernelsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<StringRef>> wanted = expandTargets(module);
    if (failed(wanted))
      return signalPassFailure();
    KernelModule kernels;
    FailureOr<std::vector<SelectedKernel>> selected = selectKernels(module, kernels);
    if (failed(selected))
      return signalPassFailure();
    FailureOr<std::vector<KernelImage>> images = kernels.emit(*wanted);
    if (failed(images)) {
      module.emitError("kernels could not be compiled");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Attribute> symbols;
    for (const KernelImage &image : *images) {
      std::string symbol = imageSymbol(image.target);
      auto type = RankedTensorType::get({int64_t(image.bytes.size())}, builder.getIntegerType(8));
      AsmResourceBlob blob =
          HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(image.bytes.data(), image.bytes.size()), 16);
      plan_ir::ImageOp::create(builder, module.getLoc(), symbol, image.target,
                               DenseResourceElementsAttr::get(type, symbol, std::move(blob)));
      symbols.push_back(FlatSymbolRefAttr::get(&getContext(), symbol));
    }
    for (const SelectedKernel &kernel : *selected) {
      const KernelDescription &description = kernel.description;
      auto add = [&](const std::string &name, const std::string &text) {
        plan_ir::KernelOp::create(builder, module.getLoc(), name, description.form, builder.getArrayAttr(symbols),
                                  text);
      };
      add(description.name, kernel.text);
      if (description.hasAdd)
        add(description.name + "_add", "as " + description.name + ", added to what the results hold");
    }
  }

  FailureOr<SmallVector<StringRef>> expandTargets(ModuleOp module) {
    SmallVector<StringRef> expanded;
    SmallVector<std::string> asked(targets.begin(), targets.end());
    if (asked.empty())
      asked.push_back("host");
    for (const std::string &target : asked) {
      if (target == "host") {
        expanded.append(std::begin(kHostTargets), std::end(kHostTargets));
        continue;
      }
      const StringLiteral *known = llvm::find(kHostTargets, target);
      if (known == std::end(kHostTargets))
        return module.emitError("there is no code generation for target '")
                   << target << "'; known are host, x86-64-v3, x86-64-v4",
               failure();
      expanded.push_back(*known);
    }
    return expanded;
  }
};
} // namespace
} // namespace ztc
