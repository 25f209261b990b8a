#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Targets.h"
#include "runtime/Format/PlanValidator.h"

#define DEBUG_TYPE "ztc-compile-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_COMPILEKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {

using codegen::CompiledImage;

/// The image's symbol: x86-64-v3 => image.x86-64-v3, of a cubin from outside followed by the kernel.
std::string imageSymbol(const CompiledImage &image) {
  return "image." + image.target + (image.name.empty() ? "" : "." + image.name);
}

/// Bytes that stand outside of the printed text.
ElementsAttr resource(Builder &builder, StringRef name, StringRef bytes) {
  auto type = RankedTensorType::get({int64_t(bytes.size())}, builder.getIntegerType(8));
  return DenseResourceElementsAttr::get(
      type, name, HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(bytes.data(), bytes.size()), 16));
}

struct CompileKernels : impl::CompileKernelsBase<CompileKernels> {
  using CompileKernelsBase::CompileKernelsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>(kernel::kKernels);
    if (!kernels)
      return;
    FailureOr<SmallVector<StringRef>> wanted = expandTargets(module, targets);
    if (failed(wanted))
      return signalPassFailure();
    FailureOr<std::vector<CompiledImage>> images = codegen::compileKernels(kernels, *wanted, cache);
    if (failed(images))
      return signalPassFailure();
    bool complete = true;
    for (auto kernel : module.getOps<plan_ir::KernelOp>()) {
      SmallVector<Attribute> found = versions(*images, kernel.getSymName(), kernels);
      if (found.empty())
        kernel.emitError("kernel ") << kernel.getSymName() << " exists for none of the targets";
      complete &= !found.empty();
      kernel.setImagesAttr(ArrayAttr::get(&getContext(), found));
    }
    kernels.erase();
    addImages(module, *images);
    if (!complete)
      signalPassFailure();
  }

  static void addImages(ModuleOp module, ArrayRef<CompiledImage> images) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto kernels = module.getOps<plan_ir::KernelOp>();
    if (!kernels.empty())
      builder.setInsertionPoint(*kernels.begin());
    for (const CompiledImage &image : images) {
      std::string symbol = imageSymbol(image);
      // A cubin's PTX stays beside it, with the zero that ends a text for the driver.
      const bool isAssembled = image.cudaVersion != 0;
      plan_ir::ImageOp::create(builder, module.getLoc(), symbol, image.target, resource(builder, symbol, image.bytes),
                               image.cudaVersion,
                               isAssembled ? resource(builder, symbol + "_ptx", image.ptx + '\0') : ElementsAttr());
      if (!image.ptx.empty() && image.resources.empty())
        plan_ir::RemarkOp::create(
            builder, module.getLoc(),
            builder.getStringAttr("kernels for " + image.target +
                                  " are PTX, which the driver compiles when a run starts: no ptxas below CUDA_HOME or "
                                  "CUDA_PATH, in PATH, in /usr/local/cuda"));
    }
  }

  /// Kernels for processors that are not generated.
  static SmallVector<std::string> hostSymbolsFromOutside(ModuleOp kernels) {
    SmallVector<std::string> symbols;
    if (auto forms = kernels.lookupSymbol<ModuleOp>(kernel::kForms))
      for (auto form : forms.getOps<kernel::FuncOp>())
        if (form.getObject(kernel::ObjectKind::Host))
          for (auto schedule : form.getSchedules().getAsRange<kernel::ScheduleAttr>())
            symbols.append(
                {schedule.getKernel().getValue().str(), (schedule.getKernel().getValue() + kernel::kAddSuffix).str()});
    return symbols;
  }

  static NamedAttribute outsideOf(Builder &b, StringRef kind) {
    return b.getNamedAttr("outside", b.getStringAttr(kind));
  }

  /// The images that hold a kernel, for a GPU with its launch.
  SmallVector<Attribute> versions(ArrayRef<CompiledImage> images, StringRef name, ModuleOp kernels) {
    auto host = kernels.lookupSymbol<ModuleOp>(kernel::kHost);
    const bool isOnHost =
        (host && host.lookupSymbol(name)) || llvm::is_contained(hostSymbolsFromOutside(kernels), name);
    SmallVector<Attribute> versions;
    for (const CompiledImage &image : images) {
      auto symbol = FlatSymbolRefAttr::get(&getContext(), imageSymbol(image));
      Builder b(&getContext());
      auto outside = image.outside.find(name.str());
      if (!isGpuTarget(image.target)) {
        if (isOnHost && outside == image.outside.end())
          versions.push_back(symbol);
        else if (isOnHost)
          versions.push_back(b.getDictionaryAttr({b.getNamedAttr("image", symbol), outsideOf(b, outside->second)}));
      } else if (auto launch = image.launches.find(name.str()); launch != image.launches.end()) {
        auto known = image.resources.find(name.str());
        KernelResources taken = known == image.resources.end() ? KernelResources() : known->second;
        auto field = [&](StringRef name, uint64_t value) { return b.getNamedAttr(name, b.getI64IntegerAttr(value)); };
        SmallVector<NamedAttribute> fields{b.getNamedAttr("image", symbol),
                                           field("block_threads", launch->second.blockThreads),
                                           field("units_per_block", launch->second.unitsPerBlock),
                                           field("shared_bytes", launch->second.sharedBytes),
                                           field("registers", taken.registers),
                                           field("local_bytes", taken.localBytes)};
        if (outside != image.outside.end())
          fields.push_back(outsideOf(b, outside->second));
        else if (image.waits)
          fields.push_back(b.getNamedAttr("waits", b.getUnitAttr()));
        versions.push_back(b.getDictionaryAttr(fields));
      }
    }
    return versions;
  }
};
} // namespace
} // namespace ztc
