// What a session leaves to look at between passes: the step after each phase, its kernels at each level.
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Driver/Session.h"
#include "compiler/Support/OutputFile.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ztc::driver {

/// Writes a module into the folder of --dump-phases, under a heading.
static LogicalResult writeDump(StringRef folder, const Twine &name, const Twine &heading, ModuleOp module) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
    llvm::errs() << "ztc: cannot make the folder " << folder << ": " << error.message() << "\n";
    return failure();
  }
  std::string file = (folder + "/" + name + ".mlir").str();
  std::string text;
  llvm::raw_string_ostream out(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, false);
  out << "// " << heading << "\n";
  module.print(out, flags);
  if (const std::string problem = writeOutput(file, text); !problem.empty()) {
    llvm::errs() << "ztc: --dump-phases: " << problem << "\n";
    return failure();
  }
  return success();
}

/// Numbered, so that a folder lists the phases in order: 09-codegen.
static std::string dumpName(const PhaseInfo &phase) {
  int number = int(phase.phase) + 1;
  return llvm::formatv("{0}{1}-{2}", number < 10 ? "0" : "", number, phase.name);
}

LogicalResult Session::dump(const PhaseInfo &phase) {
  if (opts.dumpFolder.empty())
    return success();
  return writeDump(opts.dumpFolder, dumpName(phase), Twine("after phase `") + phase.name + "`: " + phase.postCondition,
                   *moduleRef);
}

namespace {
/// Writes the kernels of phase `codegen` as they are at one level.
struct DumpKernels : PassWrapper<DumpKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DumpKernels)
  DumpKernels(std::string folder, std::string name, std::string heading)
      : folder(std::move(folder)), name(std::move(name)), heading(std::move(heading)) {}

  StringRef getName() const override { return "DumpKernels"; }
  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (kernels && failed(writeDump(folder, name, heading, kernels)))
      signalPassFailure();
  }

  std::string folder, name, heading;
};

/// Keeps the forms of kernels as they are here.
struct KeepForms : PassWrapper<KeepForms, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepForms)
  explicit KeepForms(OwningOpRef<ModuleOp> *kept) : kept(kept) {}

  StringRef getName() const override { return "KeepForms"; }
  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (auto forms = kernels ? kernels.lookupSymbol<ModuleOp>(kernel::kForms) : ModuleOp())
      *kept = forms.clone();
  }

  OwningOpRef<ModuleOp> *kept;
};
} // namespace

void Session::reachKernels(OpPassManager &pm, KernelLevel level) {
  hooks.addAfter(level, pm, [&] {
    if ((passVerifier || keepsForms) && level == KernelLevel::Forms)
      pm.addPass(std::make_unique<KeepForms>(&keptForms));
  });
  if (opts.dumpFolder.empty())
    return;
  auto [suffix, heading] = [&]() -> std::pair<StringRef, StringRef> {
    switch (level) {
    case KernelLevel::Forms:
      return {".1-forms", "what the kernels of groups compute, for all targets; the kernels of library calls"};
    case KernelLevel::Host:
      return {".2-host", "kernels as functions for a processor's lanes"};
    case KernelLevel::Gpu:
      return {".3-gpu", "kernels as functions for a GPU's threads"};
    case KernelLevel::Mapped:
      return {}; // what the last mapping left
    case KernelLevel::Expanded:
      return {".4-expanded", "kernels with elementary functions as arithmetic"};
    case KernelLevel::Lowered:
      return {".5-lowered", "kernels in the LLVM dialect"};
    }
    llvm_unreachable("a level of kernels");
  }();
  if (!suffix.empty())
    pm.addPass(std::make_unique<DumpKernels>(
        opts.dumpFolder, dumpName(allPhases()[size_t(Phase::Codegen)]) + suffix.str(), heading.str()));
}

} // namespace ztc::driver
