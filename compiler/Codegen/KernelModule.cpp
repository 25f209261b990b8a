#include "compiler/Codegen/EmitCubin.h"
#include "compiler/Codegen/EmitElf.h"
#include "compiler/Codegen/EmitSimt.h"
#include "compiler/Codegen/KernelState.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <thread>

using namespace mlir;

namespace ztc {

KernelModule::State::State(KernelModuleOptions options) : context(MLIRContext::Threading::DISABLED), options(options) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<func::FuncDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                      math::MathDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  module = ModuleOp::create(UnknownLoc::get(&context));
  if (options.device)
    deviceModule = ModuleOp::create(UnknownLoc::get(&context));
}

std::string KernelModule::State::uniqueName(StringRef wanted) {
  std::string name;
  for (char c : wanted)
    name.push_back(llvm::isAlnum(c) ? c : '_');
  if (name.empty() || llvm::isDigit(name.front()))
    name.insert(0, "kernel_");
  unsigned count = names[name]++;
  if (count == 0)
    return name;
  return uniqueName(name + "_" + std::to_string(count + 1));
}

codegen::KernelBuilder KernelModule::State::builder() {
  return codegen::KernelBuilder(UnknownLoc::get(&context), &context);
}

func::FuncOp KernelModule::State::createKernel(codegen::KernelBuilder &b, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(&context), i64 = b.getI64Type();
  b.setInsertionPointToEnd(module->getBody());
  auto kernel = func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer, i64, i64}, {}));
  b.setInsertionPointToEnd(kernel.addEntryBlock());
  return kernel;
}

func::FuncOp KernelModule::State::createDeviceKernel(codegen::KernelBuilder &b, StringRef name, unsigned pointers,
                                                     unsigned scalars) {
  SmallVector<Type> types(pointers, LLVM::LLVMPointerType::get(&context, /*global memory*/ 1));
  types.append(scalars + 1, b.getI64Type());
  b.setInsertionPointToEnd(deviceModule->getBody());
  auto kernel = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  b.setInsertionPointToEnd(kernel.addEntryBlock());
  b.forGpu = true;
  return kernel;
}

void KernelModule::State::finishKernel(codegen::KernelBuilder &b, func::FuncOp kernel) {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  func::ReturnOp::create(b);
}

KernelModule::KernelModule(KernelModuleOptions options) : state_(std::make_unique<State>(options)) {}
KernelModule::~KernelModule() = default;

const KernelModuleOptions &KernelModule::options() const {
  return state_->options;
}

/// What a kernel sees of a type: a shard of one bucket is as that of any other.
static Type withoutLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? RankedTensorType::get(tensor.getShape(), tensor.getElementType()) : type;
}

/// A group without names, layouts and locations: equal text, equal kernel.
static std::string structuralKey(graph::FusionOp group) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  DenseMap<Value, unsigned> numbers;
  Block &body = group->getRegion(0).front();
  for (BlockArgument argument : body.getArguments()) {
    numbers.try_emplace(argument, numbers.size());
    stream << withoutLayout(argument.getType()) << ';';
  }
  for (Operation &op : body) {
    stream << op.getName() << op.getAttrDictionary() << '(';
    for (Value operand : op.getOperands())
      stream << numbers.lookup(operand) << ',';
    stream << ')';
    for (Value result : op.getResults()) {
      numbers.try_emplace(result, numbers.size());
      stream << withoutLayout(result.getType()) << ';';
    }
  }
  return key;
}

FailureOr<LoweredGroup> KernelModule::addGroup(graph::FusionOp group, bool withAdd, ArrayRef<unsigned> classes) {
  std::string key = structuralKey(group);
  if (llvm::all_equal(classes))
    classes = {};
  for (unsigned number : classes)
    key += " " + std::to_string(number);
  auto known = state_->groups.find(key);
  if (known == state_->groups.end()) {
    FailureOr<LoweredGroup> lowered = codegen::lowerGroup(*state_, group, classes);
    if (failed(lowered))
      return failure();
    llvm::raw_string_ostream stream(lowered->text);
    group->print(stream, OpPrintingFlags().useLocalScope().elideLargeElementsAttrs());
    known = state_->groups.try_emplace(key, std::move(*lowered)).first;
  }
  LoweredGroup &lowered = known->second;
  if (withAdd && !llvm::any_of(lowered.kernels, [](const KernelDescription &kernel) { return kernel.hasAdd; }))
    if (failed(codegen::lowerAddVariants(*state_, group, classes, lowered)))
      return failure();
  return lowered;
}

std::string KernelModule::text() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  state_->module->print(stream);
  if (state_->deviceModule)
    state_->deviceModule->print(stream);
  return text;
}

static LogicalResult lowerToLlvm(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(module)))
    return failure();
  // What a loop says of itself arrives at its branch under the name that it had, which the translation does not know.
  module.walk([](LLVM::BrOp branch) {
    if (auto annotation = branch->getAttrOfType<LLVM::LoopAnnotationAttr>(codegen::kLoopAnnotation))
      branch.setLoopAnnotationAttr(annotation);
  });
  return success();
}

namespace {
/// One target's share of an emission, in a context of its own so that targets compile side by side.
struct TargetJob {
  KernelImage image;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::string error;

  void run(const llvm::StringMap<DeviceLaunch> &launches) {
    llvm::StringRef target = image.target;
    if (llvm::Error failure = target == "simt"            ? codegen::emitSimt(*module, launches, image)
                              : target.starts_with("sm_") ? codegen::emitCubin(*module, launches, image)
                                                          : runElf())
      error = llvm::toString(std::move(failure));
  }
  llvm::Error runElf() {
    llvm::Expected<std::string> bytes = codegen::emitElf(*module, image.target);
    if (!bytes)
      return bytes.takeError();
    image.bytes = std::move(*bytes);
    return llvm::Error::success();
  }
};
} // namespace

FailureOr<std::vector<KernelImage>> KernelModule::emit(ArrayRef<StringRef> targets) {
  OwningOpRef<ModuleOp> forHost, forDevices;
  std::vector<std::unique_ptr<TargetJob>> jobs;
  for (StringRef target : targets) {
    bool device = llvm::is_contained(kDeviceTargets, target);
    OwningOpRef<ModuleOp> &source = device ? state_->deviceModule : state_->module;
    if (!source)
      return mlir::emitError(UnknownLoc::get(&state_->context), "no kernels were made for " + target), failure();
    OwningOpRef<ModuleOp> &lowered = device ? forDevices : forHost;
    if (!lowered) {
      lowered = source->clone();
      if (failed(lowerToLlvm(*lowered)))
        return failure();
    }
    jobs.push_back(std::make_unique<TargetJob>());
    jobs.back()->image.target = target.str();
    jobs.back()->module = translateModuleToLLVMIR(*lowered, jobs.back()->context);
    if (!jobs.back()->module)
      return failure();
  }
  std::vector<std::thread> threads;
  for (std::unique_ptr<TargetJob> &job : jobs)
    threads.emplace_back([&] { job->run(state_->launches); });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<KernelImage> images;
  for (std::unique_ptr<TargetJob> &job : jobs) {
    if (!job->error.empty()) {
      mlir::emitError(UnknownLoc::get(&state_->context), "kernels for " + job->image.target + ": " + job->error);
      return failure();
    }
    images.push_back(std::move(job->image));
  }
  return images;
}

} // namespace ztc
