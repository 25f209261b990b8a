#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/KernelState.h"
#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ztc {

KernelModule::State::State(MLIRContext &context, KernelModuleOptions options) : context(context), options(options) {
  DialectRegistry registry;
  codegen::registerKernelDialects(registry);
  context.appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context.getOrLoadDialect(name);
  OpBuilder b(&context);
  Location nowhere = b.getUnknownLoc();
  kernels = ModuleOp::create(b, nowhere, kernel::kKernels);
  b.setInsertionPointToEnd(kernels->getBody());
  if (options.host && options.bodies)
    hostModule = ModuleOp::create(b, nowhere, kernel::kHost);
  if (options.device && options.bodies)
    gpuModule = ModuleOp::create(b, nowhere, kernel::kGpu);
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
  b.setInsertionPointToEnd(hostModule.getBody());
  auto kernel = func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer, i64, i64}, {}));
  b.setInsertionPointToEnd(kernel.addEntryBlock());
  return kernel;
}

func::FuncOp KernelModule::State::createDeviceKernel(codegen::KernelBuilder &b, StringRef name, unsigned pointers,
                                                     unsigned scalars) {
  SmallVector<Type> types(pointers, LLVM::LLVMPointerType::get(&context, /*global memory*/ 1));
  types.append(scalars + 1, b.getI64Type());
  b.setInsertionPointToEnd(gpuModule.getBody());
  auto kernel = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  b.setInsertionPointToEnd(kernel.addEntryBlock());
  b.forGpu = true;
  return kernel;
}

void KernelModule::State::finishKernel(codegen::KernelBuilder &b, func::FuncOp kernel) {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  func::ReturnOp::create(b);
}

void KernelModule::State::setLaunch(func::FuncOp kernel, const DeviceLaunch &launch) {
  kernel->setAttr(kernel::kLaunch,
                  kernel::LaunchAttr::get(kernel.getContext(), launch.blockThreads, launch.unitsPerBlock,
                                          launch.sharedBytes, launch.blocksTogether));
}

KernelModule::KernelModule(MLIRContext &context, KernelModuleOptions options)
    : state_(std::make_unique<State>(context, options)) {}
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
  state_->kernels->print(stream);
  return text;
}

FailureOr<std::vector<KernelImage>> KernelModule::emit(ArrayRef<StringRef> targets) {
  OwningOpRef<ModuleOp> lowered = state_->kernels->clone();
  if (failed(codegen::expandMath(*lowered)))
    return failure();
  for (auto part : lowered->getOps<ModuleOp>()) {
    PassManager passes(&state_->context);
    codegen::addLoweringPasses(passes);
    if (failed(passes.run(part)))
      return failure();
    codegen::finishLowering(part);
  }
  return codegen::compileKernels(*lowered, targets);
}

OwningOpRef<ModuleOp> KernelModule::takeKernels() {
  state_->hostModule = state_->gpuModule = {};
  return std::move(state_->kernels);
}

} // namespace ztc
