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
    auto isDevice = [](StringRef target) { return llvm::is_contained(kDeviceTargets, target); };
    KernelModule kernels({/*host=*/!llvm::all_of(*wanted, isDevice), /*device=*/llvm::any_of(*wanted, isDevice)});
    FailureOr<std::vector<SelectedKernel>> selected = selectKernels(module, kernels);
    if (failed(selected))
      return signalPassFailure();
    FailureOr<std::vector<KernelImage>> images = kernels.emit(*wanted);
    if (failed(images)) {
      module.emitError("kernels could not be compiled");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    for (const KernelImage &image : *images) {
      std::string symbol = imageSymbol(image.target);
      auto type = RankedTensorType::get({int64_t(image.bytes.size())}, builder.getIntegerType(8));
      AsmResourceBlob blob =
          HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(image.bytes.data(), image.bytes.size()), 16);
      plan_ir::ImageOp::create(builder, module.getLoc(), symbol, image.target,
                               DenseResourceElementsAttr::get(type, symbol, std::move(blob)));
      if (!image.ptx.empty() && image.resources.empty())
        plan_ir::RemarkOp::create(
            builder, module.getLoc(),
            builder.getStringAttr("kernels for " + image.target +
                                  " are PTX, which the driver compiles when a run starts: no ptxas below CUDA_HOME or "
                                  "CUDA_PATH, in PATH, in /usr/local/cuda"));
    }
    ArrayRef<KernelImage> emitted(*images);
    bool complete = true;
    for (const SelectedKernel &kernel : *selected) {
      const KernelDescription &description = kernel.description;
      auto add = [&](const std::string &name, const DeviceLaunch &launch, const std::string &text) {
        SmallVector<Attribute> images = versions(emitted, name, launch, description.onHost);
        if (images.empty())
          module.emitError("kernel ") << name << " exists for none of the targets";
        complete &= !images.empty();
        plan_ir::KernelOp::create(builder, module.getLoc(), name, description.form, builder.getArrayAttr(images), text);
      };
      add(description.name, description.device, kernel.text);
      if (description.hasAdd)
        add(description.name + "_add", description.deviceAdd,
            "as " + description.name + ", added to what the results hold");
    }
    if (!complete)
      signalPassFailure();
  }

  /// The images that hold a kernel: those of GPUs only where it has a launch.
  SmallVector<Attribute> versions(ArrayRef<KernelImage> images, const std::string &name, const DeviceLaunch &launch,
                                  bool onHost) {
    SmallVector<Attribute> versions;
    for (const KernelImage &image : images) {
      auto symbol = FlatSymbolRefAttr::get(&getContext(), imageSymbol(image.target));
      if (!llvm::is_contained(kDeviceTargets, image.target)) {
        if (onHost)
          versions.push_back(symbol);
      } else if (launch.blockThreads) {
        auto known = image.resources.find(name);
        KernelResources taken = known == image.resources.end() ? KernelResources() : known->second;
        Builder b(&getContext());
        auto field = [&](StringRef name, uint64_t value) { return b.getNamedAttr(name, b.getI64IntegerAttr(value)); };
        versions.push_back(b.getDictionaryAttr(
            {b.getNamedAttr("image", symbol), field("block_threads", launch.blockThreads),
             field("units_per_block", launch.unitsPerBlock), field("shared_bytes", launch.sharedBytes),
             field("registers", taken.registers), field("local_bytes", taken.localBytes)}));
      }
    }
    return versions;
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
      const StringLiteral *device = llvm::find(kDeviceTargets, target);
      if (known == std::end(kHostTargets) && device == std::end(kDeviceTargets))
        return module.emitError("there is no code generation for target '")
                   << target << "'; known are host, x86-64-v3, x86-64-v4, sm_80, sm_90a, sm_100a, simt",
               failure();
      expanded.push_back(known == std::end(kHostTargets) ? *device : *known);
    }
    return expanded;
  }
};
} // namespace
} // namespace ztc
