#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/KernelForms.h"
#include "compiler/Codegen/KernelState.h"
#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ztc {

static void loadKernelDialects(MLIRContext &context) {
  DialectRegistry registry;
  codegen::registerKernelDialects(registry);
  context.appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context.getOrLoadDialect(name);
}

/// The module `name` in `parent`, at its end where there was none.
static ModuleOp moduleIn(ModuleOp parent, StringRef name) {
  if (auto known = parent.lookupSymbol<ModuleOp>(name))
    return known;
  OpBuilder builder = OpBuilder::atBlockEnd(parent.getBody());
  return ModuleOp::create(builder, builder.getUnknownLoc(), name);
}

KernelModule::State::State(MLIRContext &context, KernelModuleOptions options) : context(context), options(options) {
  loadKernelDialects(context);
  owned = ModuleOp::create(UnknownLoc::get(&context), kernel::kKernels);
  kernels = *owned;
  open();
}

KernelModule::State::State(ModuleOp kernels, KernelModuleOptions options)
    : context(*kernels.getContext()), options(options), kernels(kernels) {
  loadKernelDialects(context);
  for (auto part : kernels.getOps<ModuleOp>())
    for (Operation &op : *part.getBody()) {
      if (auto form = dyn_cast<kernel::FuncOp>(op)) {
        for (auto schedule : form.getSchedules().getAsRange<kernel::ScheduleAttr>()) {
          const StringRef name = schedule.getKernel().getValue();
          names[name] = names[(name + kernel::kAddSuffix).str()] = 1;
        }
      } else if (auto symbol = dyn_cast<SymbolOpInterface>(op)) {
        names[symbol.getName()] = 1;
      }
    }
  open();
}

void KernelModule::State::open() {
  if (options.host && options.bodies)
    hostModule = moduleIn(kernels, kernel::kHost);
  if (options.device && options.bodies)
    gpuModule = moduleIn(kernels, kernel::kGpu);
}

std::pair<KernelDescription &, bool> KernelModule::State::describeService(StringRef key, StringRef name,
                                                                          ArrayRef<bool> written) {
  auto [known, isNew] = services.try_emplace(key);
  KernelDescription &d = known->second;
  if (!isNew)
    return {d, false};
  d.name = uniqueName(name);
  d.form = "service";
  for (auto [index, isWritten] : llvm::enumerate(written))
    d.buffers.push_back({isWritten ? KernelBuffer::Kind::Result : KernelBuffer::Kind::Operand,
                         static_cast<unsigned>(index), isWritten});
  return {d, true};
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
KernelModule::KernelModule(ModuleOp step, KernelModuleOptions options)
    : state_(std::make_unique<State>(moduleIn(step, kernel::kKernels), options)) {}
KernelModule::~KernelModule() = default;

const KernelModuleOptions &KernelModule::options() const {
  return state_->options;
}

/// A group without names, layouts and locations: equal words, equal kernel. Names, types and attributes stand as the
/// context's pointers: it holds each once, and printing them took a sixth of a search for what to compute again.
static std::string structuralKey(graph::FusionOp group) {
  std::string key;
  const auto add = [&](const void *unique) { key.append(reinterpret_cast<const char *>(&unique), sizeof unique); };
  const auto addNumber = [&](uint64_t number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); };
  DenseMap<Value, uint64_t> numbers;
  const auto define = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
    add(codegen::withoutLayout(value.getType()).getAsOpaquePointer());
  };
  Block &body = group->getRegion(0).front();
  addNumber(body.getNumArguments());
  for (BlockArgument argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    add(op.getName().getAsOpaquePointer());
    add(op.getAttrDictionary().getAsOpaquePointer());
    addNumber(op.getNumOperands());
    for (Value operand : op.getOperands())
      addNumber(numbers.lookup(operand));
    addNumber(op.getNumResults());
    for (Value result : op.getResults())
      define(result);
  }
  return key;
}

/// The kernels of `plan` by names of their own.
static LoweredGroup named(KernelModule::State &state, graph::FusionOp group, const codegen::GroupPlan &plan) {
  LoweredGroup lowered;
  lowered.workspaceBytes = plan.workspaceBytes;
  lowered.workspaceBytesPerFlatBlock = plan.workspaceBytesPerFlatBlock;
  for (const codegen::PlannedKernel &kernel : plan.kernels) {
    lowered.kernels.push_back(kernel.description);
    lowered.kernels.back().name = state.uniqueName(group.getName().str() + (kernel.folds.empty() ? "" : "_fold"));
  }
  llvm::raw_string_ostream stream(lowered.text);
  group->print(stream, OpPrintingFlags().useLocalScope().elideLargeElementsAttrs());
  return lowered;
}

/// From here on the kernels of `group` that write results come as variants too that add to them; but none that writes
/// codes, to which nothing can be added. `results`: of the group.
static void wantAdds(KernelModule::State &state, KnownGroup &group, TypeRange results) {
  SmallVector<Attribute> schedules;
  for (KernelDescription &kernel : group.lowered.kernels) {
    auto isResult = [](const KernelBuffer &buffer) { return buffer.kind == KernelBuffer::Kind::Result; };
    auto isCodes = [&](const KernelBuffer &buffer) { return isResult(buffer) && graph::isFp8(results[buffer.index]); };
    if (!kernel.hasAdd && llvm::any_of(kernel.buffers, isResult) && llvm::none_of(kernel.buffers, isCodes)) {
      kernel.hasAdd = true;
      ++state.names[kernel.name + kernel::kAddSuffix.str()];
    }
    schedules.push_back(codegen::scheduleOf(&state.context, kernel));
  }
  if (group.form)
    group.form.setSchedulesAttr(ArrayAttr::get(&state.context, schedules));
}

FailureOr<LoweredGroup> KernelModule::addGroup(graph::FusionOp group, bool withAdd, ArrayRef<unsigned> classes) {
  std::string key = structuralKey(group);
  if (llvm::all_equal(classes))
    classes = {};
  for (unsigned number : classes)
    key += " " + std::to_string(number);
  auto known = state_->groups.find(key);
  if (known == state_->groups.end()) {
    FailureOr<codegen::GroupPlan> plan = codegen::planGroup(group, classes);
    if (failed(plan))
      return failure();
    KnownGroup added{named(*state_, group, *plan), {}};
    if (state_->options.bodies)
      added.form = codegen::addForm(moduleIn(state_->kernels, kernel::kForms), group, added.lowered, classes);
    known = state_->groups.try_emplace(key, std::move(added)).first;
  }
  if (withAdd)
    wantAdds(*state_, known->second, group.getResultTypes());
  return known->second.lowered;
}

std::string KernelModule::text() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  state_->kernels.print(stream);
  return text;
}

FailureOr<std::vector<KernelImage>> KernelModule::emit(ArrayRef<StringRef> targets) {
  OwningOpRef<ModuleOp> kernels = state_->kernels.clone();
  if ((state_->options.host && failed(codegen::mapToHost(*kernels))) ||
      (state_->options.device && failed(codegen::mapToGpu(*kernels))) || failed(codegen::expandMath(*kernels)))
    return failure();
  for (ModuleOp part : codegen::mappedModules(*kernels)) {
    PassManager passes(&state_->context);
    codegen::addLoweringPasses(passes);
    if (failed(passes.run(part)))
      return failure();
    codegen::finishLowering(part);
  }
  FailureOr<std::vector<codegen::CompiledImage>> images = codegen::compileKernels(*kernels, targets);
  if (failed(images))
    return failure();
  return std::vector<KernelImage>(images->begin(), images->end());
}

} // namespace ztc
