#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Codegen/KernelCache.h"
#include "compiler/Codegen/KernelContent.h"
#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Targets.h"
#include "runtime/Format/PlanValidator.h"

#define DEBUG_TYPE "ztc-reuse-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_REUSEKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {

using codegen::KernelCache;

struct ReuseKernels : impl::ReuseKernelsBase<ReuseKernels> {
  using ReuseKernelsBase::ReuseKernelsBase;

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (!kernels || cache.empty())
      return;
    FailureOr<SmallVector<StringRef>> wanted = expandTargets(getOperation(), targets);
    if (failed(wanted))
      return signalPassFailure();
    // What comes from outside takes the place of what is generated later.
    if (auto forms = kernels.lookupSymbol<ModuleOp>(kernel::kForms))
      for (auto form : forms.getOps<kernel::FuncOp>())
        if (form.getObjectsAttr())
          return;
    const KernelCache known(cache);
    for (ModuleOp part : codegen::mappedModules(kernels)) {
      const bool isForGpus = part.getSymName() == kernel::kGpu;
      SmallVector<StringRef> own;
      llvm::copy_if(*wanted, std::back_inserter(own),
                    [&](StringRef target) { return isGpuTarget(target) == isForGpus; });
      reuse(part, own, known);
    }
  }

  static void reuse(ModuleOp part, ArrayRef<StringRef> targets, const KernelCache &known) {
    Builder b(part.getContext());
    SmallVector<std::string> contents;
    SmallVector<func::FuncOp> functions;
    for (auto function : part.getOps<func::FuncOp>()) {
      if (function.isExternal() || function.isPrivate())
        continue;
      functions.push_back(function);
      contents.push_back(codegen::contentOf(function));
      if (contents.back().empty()) // nothing is known of the whole either
        return;
    }
    for (auto [function, content] : llvm::zip_equal(functions, contents))
      function->setAttr(codegen::kContent, b.getStringAttr(content));
    // Machine code for a GPU is one image of all kernels: their bodies stay where one of these is missing.
    SmallVector<NamedAttribute> images;
    for (StringRef target : targets) {
      if (!target.starts_with("sm_"))
        continue;
      std::optional<std::string> image = known.find(codegen::cubinKey(target, contents));
      if (!image)
        return;
      images.push_back(b.getNamedAttr(target, b.getStringAttr(*image)));
    }
    SmallVector<DictionaryAttr> objects;
    bool hasAll = true;
    for (const std::string &content : contents) {
      SmallVector<NamedAttribute> found;
      for (StringRef target : targets)
        if (!target.starts_with("sm_"))
          if (std::optional<std::string> object = known.find(codegen::objectKey(target, content)))
            found.push_back(b.getNamedAttr(target, b.getStringAttr(*object)));
      const bool isWhole = found.size() + images.size() == targets.size();
      objects.push_back(isWhole ? b.getDictionaryAttr(found) : DictionaryAttr());
      hasAll &= isWhole;
    }
    if (!images.empty() && !hasAll)
      return;
    if (!images.empty())
      part->setAttr(codegen::kImages, b.getDictionaryAttr(images));
    for (auto [function, found] : llvm::zip_equal(functions, objects))
      if (found) {
        function->setAttr(codegen::kObjects, found);
        function.eraseBody();
        function.setPrivate();
      }
  }
};
} // namespace
} // namespace ztc
