#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Codegen/EmitElf.h"
#include "compiler/Codegen/EmitSimt.h"
#include "compiler/Codegen/KernelCache.h"
#include "compiler/Codegen/KernelContent.h"
#include "compiler/Codegen/OutsideKernels.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <thread>

using namespace mlir;

namespace ztc::codegen {

void registerKernelDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect, math::MathDialect,
                  vector::VectorDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, kernel::KernelDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

namespace {
/// One target's share of an emission, in a context of its own so that targets compile side by side.
struct TargetJob {
  CompiledImage image;
  std::vector<CompiledImage> cubins; ///< from outside
  OutsideKernels outside;
  KnownKernels known;
  std::vector<std::string> contents; ///< of all kernels; empty where they are not known
  std::string knownImage;            ///< of all kernels; empty: not known
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::string error;

  void run(const KernelCache &cache) {
    llvm::StringRef target = image.target;
    if (llvm::Error failure = target == "simt" ? emitSimt(*module, image, outside, cache, known)
                              : target.starts_with("sm_")
                                  ? emitCubin(*module, image, outside, cache, contents, knownImage)
                                  : runElf(cache))
      error = llvm::toString(std::move(failure));
  }
  llvm::Error runElf(const KernelCache &cache) {
    llvm::Expected<std::string> bytes = emitElf(*module, image.target, outside, cache, known);
    if (!bytes)
      return bytes.takeError();
    image.bytes = std::move(*bytes);
    return llvm::Error::success();
  }
};
} // namespace

/// What ztc-reuse-kernels has found out.
static void takeKnown(ModuleOp source, TargetJob &job) {
  const std::string &target = job.image.target;
  bool isComplete = true;
  for (auto function : source.getOps<LLVM::LLVMFuncOp>()) {
    auto content = function->getAttrOfType<StringAttr>(kContent);
    isComplete &= content || function.isExternal() || function.isPrivate();
    if (!content)
      continue;
    job.contents.push_back(content.str());
    KnownKernel &known = job.known[function.getName()];
    known.content = content.getValue();
    if (auto objects = function->getAttrOfType<DictionaryAttr>(kObjects))
      if (auto object = objects.getAs<StringAttr>(target))
        known.object = object.getValue();
  }
  if (!isComplete)
    job.contents.clear();
  if (auto images = source->getAttrOfType<DictionaryAttr>(kImages))
    if (auto image = images.getAs<StringAttr>(target))
      job.knownImage = image.str();
}

static DeviceLaunch launchOf(kernel::LaunchAttr launch) {
  return {launch.getThreads(), launch.getUnits(), launch.getShared(), launch.getBlocks()};
}

/// What the kernels of `form` are on the target: the engine of simt knows neither PTX nor cubins.
static kernel::ObjectAttr objectFor(kernel::FuncOp form, StringRef target) {
  if (!isGpuTarget(target))
    return form.getObject(kernel::ObjectKind::Host);
  if (target == "simt")
    return form.getObject(kernel::ObjectKind::Simt);
  kernel::ObjectAttr cubin = form.getObject(kernel::ObjectKind::Cubin, target);
  return cubin ? cubin : form.getObject(kernel::ObjectKind::Ptx);
}

static bool hasCubin(kernel::FuncOp form) {
  ArrayAttr objects = form.getObjectsAttr();
  return objects && llvm::any_of(objects.getAsRange<kernel::ObjectAttr>(), [](kernel::ObjectAttr object) {
           return object.getKind() == kernel::ObjectKind::Cubin;
         });
}

/// Adds what comes from outside for the target of `job`, in place of what was generated.
static LogicalResult addOutside(ModuleOp forms, TargetJob &job) {
  const StringRef target = job.image.target;
  for (auto form : forms.getOps<kernel::FuncOp>()) {
    kernel::ObjectAttr object = objectFor(form, target);
    if (!object) {
      if (isGpuTarget(target) && target != "simt" && hasCubin(form))
        form.emitWarning("has a cubin from outside, but none for ") << target << ": what is generated runs there";
      continue;
    }
    const AsmResourceBlob *blob = object.getData().getRawHandle().getBlob();
    if (!blob)
      return form.emitOpError("the bytes of ") << object.getData() << " are not there";
    const StringRef bytes(blob->getData().data(), blob->getData().size());
    const bool isCubin = object.getKind() == kernel::ObjectKind::Cubin;
    CompiledImage *image = &job.image;
    if (isCubin) {
      image = &job.cubins.emplace_back();
      image->target = target.str(), image->bytes = bytes.str(), image->name = form.getSymName().str();
    } else {
      job.outside.pieces.push_back(bytes.str());
    }
    std::vector<std::string> symbols;
    for (auto [number, schedule] : llvm::enumerate(form.getSchedules().getAsRange<kernel::ScheduleAttr>())) {
      const std::string name = schedule.getKernel().getValue().str();
      for (const std::string &symbol :
           schedule.getHasAdd() ? std::vector{name, name + kernel::kAddSuffix.str()} : std::vector{name}) {
        symbols.push_back(symbol);
        image->outside[symbol] = stringifyObjectKind(object.getKind()).str();
        job.image.launches.erase(symbol);
        if (isGpuTarget(target))
          image->launches[symbol] = launchOf(cast<kernel::LaunchAttr>(object.getLaunches()[number]));
        if (llvm::Function *generated = job.module->getFunction(symbol))
          generated->eraseFromParent();
      }
    }
    if (!isCubin)
      llvm::append_range(job.outside.symbols, symbols);
    else if (llvm::Error refused = checkCubin(bytes, target, symbols))
      return form.emitOpError() << llvm::toString(std::move(refused)), failure();
  }
  return success();
}

FailureOr<std::vector<CompiledImage>> compileKernels(ModuleOp kernels, ArrayRef<StringRef> targets,
                                                     StringRef cacheFolder) {
  const KernelCache cache(cacheFolder);
  std::vector<std::unique_ptr<TargetJob>> jobs;
  for (StringRef target : targets) {
    auto source = kernels.lookupSymbol<ModuleOp>(isGpuTarget(target) ? kernel::kGpu : kernel::kHost);
    if (!source)
      return kernels.emitError("no kernels were made for ") << target, failure();
    jobs.push_back(std::make_unique<TargetJob>());
    jobs.back()->image.target = target.str();
    for (auto function : source.getOps<LLVM::LLVMFuncOp>())
      if (auto launch = function->getAttrOfType<kernel::LaunchAttr>(kernel::kLaunch))
        jobs.back()->image.launches[function.getName().str()] = launchOf(launch);
    takeKnown(source, *jobs.back());
    jobs.back()->module = translateModuleToLLVMIR(source, jobs.back()->context);
    if (!jobs.back()->module)
      return failure();
    auto forms = kernels.lookupSymbol<ModuleOp>(kernel::kForms);
    if (forms && failed(addOutside(forms, *jobs.back())))
      return failure();
  }
  std::vector<std::thread> threads;
  for (std::unique_ptr<TargetJob> &job : jobs)
    threads.emplace_back([&] { job->run(cache); });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<CompiledImage> images;
  for (std::unique_ptr<TargetJob> &job : jobs) {
    if (!job->error.empty())
      return kernels.emitError("kernels for ") << job->image.target << ": " << job->error, failure();
    images.push_back(std::move(job->image));
    llvm::move(job->cubins, std::back_inserter(images));
  }
  return images;
}

} // namespace ztc::codegen
