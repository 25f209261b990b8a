#include "compiler/Driver/Session.h"
#include "compiler/Analysis/KeptGathers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/Adapter.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/ExplainPasses.h"
#include "compiler/Driver/PatternOptions.h"
#include "compiler/Driver/Pipeline.h"
#include "compiler/Driver/Quantized.h"
#include "compiler/Driver/RegisterAll.h"
#include "compiler/Driver/RegisteredNames.h"
#include "compiler/Driver/RunningPass.h"
#include "compiler/Driver/VerifyPasses.h"
#include "compiler/Support/Location.h"
#include "compiler/Support/Nesting.h"
#include "compiler/Support/ScratchFolder.h"
#include "frontends/huggingface/Folder.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Adapters/Names.h"
#include "passes/Autodiff/Passes.h"
#include "runtime/Core/Print.h"
#include "runtime/Format/FreshValues.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <set>
#include <thread>

using namespace mlir;

namespace ztc::driver {

std::vector<std::pair<std::string, std::string>> describe(const CompileOptions &o) {
  auto join = [](const std::vector<std::string> &list) { return llvm::join(list, ","); };
  std::vector<std::pair<std::string, std::string>> all{
      {"zero", std::to_string(o.zero)},
      {"prefetch", o.prefetch ? std::to_string(*o.prefetch) : ""},
      {"early-gathers", o.earlyGathers ? "on" : ""},
      {"keep-gathered", o.keepGathered == Keeping::Auto ? "" : wordOf(o.keepGathered)},
      {"keep-fp8-weights", o.keepFp8Weights == Keeping::Auto ? "" : wordOf(o.keepFp8Weights)},
      {"precision", wordOf(o.precision)},
      {"precision-policy", join(o.keptFp32)},
      {"bf16-policy", join(o.keptBf16)},
      {"fp8-gradients", o.precision == StoragePrecision::Fp8 ? wordOf(o.fp8Gradients) : ""},
      {"fp8-scaling", o.fp8Scaling == Fp8Scaling::Dynamic ? "" : wordOf(o.fp8Scaling)},
      {"recompute", o.recompute},
      {"loss-rows", o.lossRows ? std::to_string(o.lossRows) : ""},
      {"recomputed", o.recomputeChoice.isEmpty() ? "" : o.recomputeChoice.text()},
      {"optimizer", o.optimizer == "adamw" ? "" : o.optimizer},
      {"adjust-lr-fn", orthogonalizes(o) ? wordOf(o.adjustLrFn) : ""},
      {"optimizer-state", wordOf(o.optimizerState)},
      {"master", o.masters == MasterFormat::Fp32 ? "" : wordOf(o.masters)},
      {"update", o.updateTime == UpdateTime::After ? "" : wordOf(o.updateTime)},
      {"target", join(o.targets)},
      {"gpu", o.gpuModel},
      {"weights", o.weights},
      {"padding-token", o.paddingToken},
      {"input", join(o.inputRoles)},
      {"freeze", o.freezePattern},
      {"adapter", o.adapter},
      {"lora", o.lora},
      {"quantize", wordOf(o.quantize)},
      {"no-decay", o.noDecayPattern},
      {"lr-of", llvm::join(o.rates, " ")},
      {"tf32", o.tf32 ? "on" : ""},
      {"pack", o.pack ? "on" : ""},
      {"loss-weights", o.lossWeights ? "on" : ""},
      {"generate", o.generate ? "cache" : ""},
      {"disable-pass", join(o.disabledPasses)},
      {"pass-option", join(o.passOptions)},
      {"mem", o.memoryBudget ? std::to_string(o.memoryBudget) : ""},
      {"host-mem", o.hostMemory ? std::to_string(o.hostMemory) : ""},
      {"disk", o.disk},
      {"disk-mem", o.diskMemory ? std::to_string(o.diskMemory) : ""},
      {"offload-update", o.offloadUpdate == UpdatePlace::Auto ? "" : wordOf(o.offloadUpdate)},
      {"offloaded", o.offload.isEmpty() ? "" : o.offload.text()},
  };
  llvm::erase_if(all, [](const auto &entry) { return entry.second.empty(); });
  return all;
}

PlanShape shapeOf(const CompileOptions &options, unsigned world, ArrayRef<std::string> targets) {
  if (!options.threads && llvm::any_of(targets, isGpuTarget))
    return {world, options.accumulate, 0};
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return {world, options.accumulate, options.threads ? options.threads : std::max(1u, cores / world)};
}

FailureOr<Phase> parsePhase(StringRef name) {
  for (const PhaseInfo &info : allPhases())
    if (name == info.name)
      return info.phase;
  llvm::errs() << "ztc: there is no phase '" << name << "'; phases are";
  for (const PhaseInfo &info : allPhases())
    llvm::errs() << " " << info.name;
  llvm::errs() << "\n";
  return failure();
}

/// Skips the execution of passes that --disable-pass names.
static void disablePasses(MLIRContext &context, const std::vector<std::string> &names) {
  if (names.empty())
    return;
  std::set<std::string> disabled(names.begin(), names.end());
  context.registerActionHandler([disabled](function_ref<void()> transform, const tracing::Action &action) {
    if (const auto *execution = dyn_cast<PassExecutionAction>(&action))
      if (disabled.count(execution->getPass().getArgument().str()))
        return;
    transform();
  });
}

/// Rewords a message about the IR for a user who knows only the model: `'graph.top_k' op has ...` becomes `top_k has
/// ...`, and a function or module of the IR becomes "the model".
static std::string inPlainWords(std::string text) {
  for (size_t begin = 0; (begin = text.find('\'', begin)) != std::string::npos;) {
    const size_t end = text.find("' op ", begin + 1);
    if (end == std::string::npos)
      break;
    const StringRef op = StringRef(text).slice(begin + 1, end);
    const auto [dialect, name] = op.split('.');
    if (name.empty() || op.find_first_of(" '") != StringRef::npos) {
      ++begin;
      continue;
    }
    const std::string said = dialect == "func" || dialect == "builtin" ? "the model" : name.str();
    text.replace(begin, end + 5 - begin, said + " ");
    begin += said.size();
  }
  return text;
}

Session::Session(CompileOptions options) : opts(std::move(options)) {
  registerAllDialects(registry);
  registerAllPasses();
  for (const std::string &file : opts.plugins) {
    std::string identity;
    valid &= succeeded(loadPlugin(file, hooks, registry, &identity));
    pluginIdentities.push_back(std::move(identity));
  }
  for (const std::string &text : opts.patterns)
    valid &= succeeded(registerPatterns(text, hooks, patternIdentities.emplace_back()));
  valid = valid && areRegistered(opts);
  valid &= succeeded(MlirOptions::parse(opts.mlirOptions));
  mlirOptions = std::make_unique<MlirOptions>();
  for (const std::string &name : opts.disabledPasses)
    if (!PassInfo::lookup(name)) {
      llvm::errs() << "ztc: --disable-pass=" << name << " names no pass (ztc-opt --help lists them)\n";
      valid = false;
    }
  // One thread: the IR of a step is small, and the thread pool costs more than it saves.
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Nor with the operation in question: that may be the whole step.
  context->printOpOnDiagnostic(false);
  // As MLIR prints errors; but names in files may hold what a terminal obeys.
  context->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    // A warning is about the model, not about a place in it: a parameter that is not trained, an option without effect.
    if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      return llvm::errs() << "ztc: note: " << printable(diagnostic.str()) << "\n", success();
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    if (!isa<UnknownLoc>(diagnostic.getLocation()))
      stream << diagnostic.getLocation() << ": ";
    stream << "error: " << diagnostic;
    lacksScratch |= diagnostic.str().ends_with(kScratchAdvice);
    if (!runningPass().empty())
      stream << " (" << runningPass() << ")";
    llvm::errs() << printable(seesIr() ? text : inPlainWords(std::move(text))) << "\n";
    llvm::errs().flush();
    return success();
  });
  disablePasses(*context, opts.disabledPasses);
  FailureOr<Remarks> enabled = Remarks::enable(*context, opts.remarks, opts.remarksFile);
  FailureOr<std::vector<PassOption>> parsed = parsePassOptions(opts.passOptions);
  valid &= succeeded(enabled) && succeeded(parsed);
  if (valid) {
    remarks = std::move(*enabled);
    passOptions = std::move(*parsed);
    valid = (passOptions.empty() && opts.disabledPasses.empty()) || succeeded(checkPassOptions());
  }
  if (valid && opts.explainPasses)
    explainer = std::make_unique<PassExplainer>(
        hooks, [this](ModuleOp copy, Phase next) { return finishByDefault(copy, next); },
        shapeOf(opts, opts.gpus.front(), opts.targets));
}

Session::~Session() = default;

void Session::collect(Messages &messages) {
  collecting = true;
  context->getDiagEngine().registerHandler([this, &messages](Diagnostic &diagnostic) {
    std::string text = scopeOf(diagnostic.getLocation());
    text += (text.empty() ? "" : ": ") + diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      text += "\n  " + note.str();
    if (!runningPass().empty())
      text += " (" + runningPass() + ")";
    if (!seesIr())
      text = inPlainWords(std::move(text));
    (diagnostic.getSeverity() == DiagnosticSeverity::Error ? messages.errors : messages.others)
        .push_back(std::move(text));
    return success();
  });
}

/// config.json of the checkpoint, or else beside the model, with its folder; nothing where there is none.
static void findConfig(const CompileOptions &options, PlanOptions &found) {
  llvm::SmallVector<std::string, 2> folders;
  if (!options.weights.empty())
    folders.push_back(llvm::sys::fs::is_directory(options.weights)
                          ? options.weights
                          : llvm::sys::path::parent_path(options.weights).str());
  const std::string &model = options.model.empty() ? options.input : options.model;
  folders.push_back(huggingface::isModelFolder(model) ? model : llvm::sys::path::parent_path(model).str());
  for (const std::string &folder : folders) {
    llvm::SmallString<256> path(folder);
    if (llvm::sys::fs::make_absolute(path))
      continue;
    llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    llvm::SmallString<256> file(path);
    llvm::sys::path::append(file, "config.json");
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer)
      continue;
    found.hfConfig = (*buffer)->getBuffer().str();
    // An export takes tokenizer and template from there (runtime/Checkpoint/Export.h).
    found.options["model-folder"] = path.str().str();
    return;
  }
}

LogicalResult Session::importInput() {
  ImportOptions import;
  import.batch = opts.batch;
  import.seq = opts.seq;
  import.weights = opts.weights;
  import.paddingToken = opts.paddingToken;
  import.inputRoles = opts.inputRoles;
  import.writeBack = writeBack;
  import.freeze = opts.freezePattern;
  std::string path = opts.input;
  std::vector<huggingface::QuantizedTensor> quantized;
  std::string dequantizedType;
  if (huggingface::isModelFolder(opts.input)) {
    StatusOr<huggingface::FolderModel> built = huggingface::buildFolder(opts.input, opts.precision, opts.saveOnnx);
    if (!built.isOk())
      return emitError(UnknownLoc::get(context.get())) << built.status().message();
    if (!built->limitReason.empty() && int64_t(opts.seq) > built->positionLimit)
      return emitError(UnknownLoc::get(context.get())) << built->limitReason;
    path += "/config.json";
    import.message = std::move(built->onnx);
    import.name = llvm::sys::path::filename(llvm::StringRef(opts.input).rtrim('/')).str();
    import.positionLimit = built->positionLimit;
    report.notes = std::move(built->notes);
    quantized = std::move(built->quantized);
    dequantizedType = std::move(built->dequantizedType);
    if (!built->hasWeights && opts.weights.empty())
      fresh.deviation = built->initializerRange;
    fresh.values = built->freshValues;
  } else if (!opts.saveOnnx.empty()) {
    return emitError(UnknownLoc::get(context.get()))
           << "--save-onnx: " << opts.input << " is not a folder; the graph is in that file already";
  }
  FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(*context, path, import, report);
  if (failed(imported))
    return failure();
  if (report.freezesUnread && !report.freezesParameters)
    opts.freezePattern.clear(); // it has done what it is for
  moduleRef = std::move(*imported);
  describeQuantized(report, quantized, dequantizedType, opts);
  if (failed(attachQuantized(*moduleRef, quantized, opts)))
    return failure();
  if (opts.adapter.empty() && opts.lora.empty()) {
    if (opts.quantize == FrozenFormat::Plain)
      return success();
    return emitError(UnknownLoc::get(context.get()))
           << "--quantize=" << wordOf(opts.quantize)
           << ": only what is not trained is stored in fewer bits; give --lora=r=16,alpha=32,targets=all-linear or "
              "--adapter=DIR too";
  }
  PlanOptions found;
  findConfig(opts, found);
  return attachAdapter(*moduleRef, opts, found.hfConfig, found.options["model-folder"], report.notes);
}

LogicalResult Session::addPhaseWithHooks(Phase phase, OpPassManager &pm) {
  hooks.addBefore(phase, pm);
  addPhase(phase, pm, opts,
           {[this](OpPassManager &pm) { hooks.addAfterLoss(pm); },
            [this](OpPassManager &pm, KernelLevel level) { reachKernels(pm, level); }});
  hooks.addAfter(phase, pm);
  return setPassOptions(pm, passOptions);
}

/// True where a pipeline, as MLIR prints it, has the pass.
static bool hasPass(StringRef pipeline, StringRef name) {
  for (size_t at = pipeline.find(name); at != StringRef::npos; at = pipeline.find(name, at + 1))
    if ((at == 0 || StringRef("(,").contains(pipeline[at - 1])) &&
        (at + name.size() == pipeline.size() || StringRef(",){(").contains(pipeline[at + name.size()])))
      return true;
  return false;
}

LogicalResult Session::checkPassOptions() {
  FailureOr<Phase> from = opts.from.empty() ? FailureOr<Phase>(Phase::Import) : parsePhase(opts.from);
  if (failed(from))
    return failure();
  std::string pipelines;
  for (const PhaseInfo &info : allPhases()) {
    PassManager pm(context.get(), ModuleOp::getOperationName());
    if (info.phase > *from && failed(addPhaseWithHooks(info.phase, pm)))
      return failure();
    llvm::raw_string_ostream stream(pipelines);
    pm.printAsTextualPipeline(stream);
  }
  // MLIR's own passes may stand in pipelines that a pass of ours runs.
  for (StringRef name : opts.disabledPasses)
    if (name.starts_with("ztc-") && !hasPass(pipelines, name)) {
      llvm::errs() << "ztc: --disable-pass=" << name
                   << ": no pipeline of this compilation has that pass (--print-pipeline lists them)\n";
      return failure();
    }
  for (const PassOption &option : passOptions)
    if (!option.used) {
      llvm::errs() << "ztc: --pass-option=" << option.pass << "." << option.option
                   << ": no pipeline of this compilation has that pass (--print-pipeline lists them)\n";
      return failure();
    }
  return success();
}

FailureOr<plan::Plan> Session::finishByDefault(ModuleOp copy, Phase next) {
  CompileOptions rest;
  rest.adapter = opts.adapter, rest.lora = opts.lora, rest.quantize = opts.quantize;
  rest.freezePattern = opts.freezePattern, rest.noDecayPattern = opts.noDecayPattern;
  rest.rates = opts.rates;
  rest.pack = opts.pack, rest.lossWeights = opts.lossWeights, rest.generate = opts.generate,
  rest.targets = opts.targets;
  PassManager pm(context.get(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  for (const PhaseInfo &info : allPhases())
    if (info.phase == Phase::Plan || (info.phase >= next && info.phase <= Phase::Assign))
      addPhase(info.phase, pm, rest);
  Remarks::Silence silence(remarks); // what is tried here is not what is done
  if (failed(pm.run(copy)))
    return failure();
  return buildPlan(copy, planOptions(/*withKernels=*/false));
}

LogicalResult Session::differentiateByDefault(ModuleOp copy) {
  if (copy.lookupSymbol("microstep"))
    return success();
  PassManager pm(context.get(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  if (copy.lookupSymbol("eval"))
    pm.addPass(createDifferentiate());
  else
    addPhase(Phase::Backward, pm, opts);
  Remarks::Silence silence(remarks); // what is tried here is not what is done
  return pm.run(copy);
}

FailureOr<OwningOpRef<ModuleOp>> Session::kernelsOf(ModuleOp assigned, const std::vector<std::string> &targets) {
  OwningOpRef<ModuleOp> copy = assigned.clone();
  const CompileOptions own = opts;
  llvm::scope_exit restore([&] { opts = own; });
  opts.targets = targets;
  opts.dumpFolder.clear();
  keptForms = {};
  PassManager pm(context.get(), ModuleOp::getOperationName());
  hooks.forgetPasses();
  if (!opts.plugins.empty() || !opts.patterns.empty())
    pm.addInstrumentation(notePasses(hooks, Phase::Codegen));
  Remarks::Silence silence(remarks); // the step's own run has spoken
  ScopedDiagnosticHandler quiet(context.get(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  if (failed(addPhaseWithHooks(Phase::Codegen, pm)) || failed(pm.run(*copy)))
    return failure();
  return copy;
}

void Session::verify(PassVerifier &verifier) {
  passVerifier = &verifier;
  verifier.differentiateBy([this](ModuleOp copy) { return differentiateByDefault(copy); });
}

namespace {
/// MLIR's own verifier as a pass.
struct VerifyModule : PassWrapper<VerifyModule, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyModule)
  StringRef getName() const override { return "VerifyModule"; }
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(mlir::verify(getOperation())))
      signalPassFailure();
  }
};
} // namespace

/// MLIR's verifier goes over the whole module after each pass. Of the ops of many experts that is half of the time of a
/// compilation: beyond so many it looks once a phase, unless passes of others take part.
static constexpr size_t kMostOpsForEachPass = 50000;

static size_t opsOf(ModuleOp module) {
  size_t count = 0;
  for (auto function : module.getOps<func::FuncOp>())
    for (Block &block : function.getBody())
      count += block.getOperations().size();
  return count;
}

LogicalResult Session::runPhase(const PhaseInfo &info) {
  TimingScope scope = mlirOptions->scope(info.name);
  PassManager pm(context.get(), ModuleOp::getOperationName());
  const bool hasForeign = !opts.plugins.empty() || !opts.patterns.empty();
  const bool verifiesEach = verifies && (hasForeign || passVerifier || opsOf(*moduleRef) <= kMostOpsForEachPass);
  pm.enableVerifier(verifiesEach);
  hooks.forgetPasses();
  if (hasForeign)
    pm.addInstrumentation(notePasses(hooks, info.phase));
  const bool isFollowed = passVerifier && info.phase <= Phase::Schedule;
  if (isFollowed && !passVerifier->hasBegun())
    passVerifier->begin(*moduleRef, opts.optimizerState == StateFormat::Int8);
  if (isFollowed)
    pm.addInstrumentation(passVerifier->instrumentation(info.phase, opts.precision));
  if (explainer) {
    explainer->beginPhase(info.phase, *moduleRef);
    pm.addInstrumentation(explainer->instrumentation());
  }
  if (failed(addPhaseWithHooks(info.phase, pm)) || failed(mlirOptions->apply(pm, scope)))
    return failure();
  if (verifies && !verifiesEach)
    pm.addPass(std::make_unique<VerifyModule>());
  if (verifies)
    addPhaseVerifier(info.phase, pm);
  if (opts.printPipeline) {
    llvm::outs() << info.name << ": ";
    pm.printAsTextualPipeline(llvm::outs());
    llvm::outs() << "\n";
  }
  if (failed(pm.run(*moduleRef))) {
    failed_ = info.phase;
    if (!collecting && seesIr())
      llvm::errs() << "ztc: phase " << info.name << " failed\n";
    else if (!collecting && !lacksScratch && info.phase > Phase::Precision) // no option of the user leads there
      llvm::errs()
          << "ztc: this is a limit of ztc, not a mistake in the model: please report it with the graph and the "
             "command (phase "
          << info.name << ")\n";
    return failure();
  }
  if (isFollowed && failed(passVerifier->endPhase(info.phase, *moduleRef, opts.precision)))
    return failure();
  if (explainer)
    explainer->endPhase(info.phase, *moduleRef);
  recordOptions(*moduleRef, opts, fresh, info.phase);
  return dump(info);
}

LogicalResult Session::readIr() {
  FailureOr<Phase> from = parsePhase(opts.from);
  if (failed(from))
    return failure();
  if (auto text = llvm::MemoryBuffer::getFile(opts.input); text && nestingOf((*text)->getBuffer()) > kDeepestText) {
    llvm::errs() << "ztc: " << opts.input << ": brackets are nested more than " << kDeepestText
                 << " deep: this is not the IR of a phase\n";
    return failure();
  }
  moduleRef = parseSourceFile<ModuleOp>(opts.input, ParserConfig(context.get()));
  if (!moduleRef)
    return failure();
  RecordedOptions recorded = takeRecordedOptions(*moduleRef, *from, opts);
  fresh = recorded.fresh;
  for (const std::string &note : recorded.notes)
    llvm::errs() << "ztc: note: " << note << "\n";
  if (!recorded.error.empty()) {
    valid = false;
    if (collecting)
      return emitError(UnknownLoc::get(context.get())) << recorded.error;
    llvm::errs() << "ztc: " << printable(recorded.error) << "\n";
    return failure();
  }
  const Phase reached = *from;
  done = reached;
  return success();
}

LogicalResult Session::run(Phase last) {
  if (!done && !opts.from.empty() && failed(readIr()))
    return failure();
  for (const PhaseInfo &info : allPhases()) {
    if (info.phase > last)
      break;
    if (done && info.phase <= *done)
      continue;
    if (info.phase == Phase::Import && failed(importInput())) {
      failed_ = info.phase;
      return failure();
    }
    if (info.phase == Phase::Recompute && failed(chooseOffload()))
      return failure();
    if (info.phase == Phase::Recompute && isSearching()) {
      StepProbe probing = probe();
      FailureOr<RecomputeDecision> decision = decide(probing, shapesOfBudget(opts));
      if (failed(decision))
        return failure();
      decided = std::move(*decision);
      if (!decided->fits)
        return failure(); // the caller reports what is missing
      opts.recomputeChoice = decided->choice;
    }
    offloadProbe.reset();
    probeSteps.reset();
    if (failed(runPhase(info)))
      return failure();
    done = info.phase;
  }
  return success();
}

Session::Snapshot Session::snapshot() {
  return {moduleRef->clone(), done, opts, sharedSteps()};
}

void Session::restore(const Snapshot &snapshot, CompileOptions options) {
  offloadProbe.reset();
  moduleRef = snapshot.module.get().clone();
  keptForms = {};
  done = snapshot.done;
  // What lies below the device is decided after these steps.
  const CompileOptions &before = snapshot.options;
  const bool isSameStep = options.recompute == before.recompute && options.prefetch == before.prefetch &&
                          (options.memoryBudget != 0) == (before.memoryBudget != 0);
  probeSteps = isSameStep ? snapshot.probeSteps : nullptr;
  opts = std::move(options);
}

PlanOptions Session::planOptions(bool withKernels) const {
  PlanOptions options;
  options.ztcVersion = versionText();
  options.precision = wordOf(opts.precision);
  options.zero = opts.zero;
  options.budgetBytes = opts.memoryBudget;
  if (opts.given.count("reserve"))
    options.reserveBytes = opts.memoryReserve;
  options.tf32 = opts.tf32;
  findConfig(opts, options);
  if (auto adapter = moduleRef.get()->getAttrOfType<StringAttr>(adapters::kConfig))
    options.adapterConfig = adapter.str();
  for (auto &[name, value] : describe(opts))
    options.options[name] = value;
  if (!pluginIdentities.empty())
    options.options["load-pass-plugin"] = llvm::join(pluginIdentities, ",");
  if (!patternIdentities.empty())
    options.options["patterns"] = llvm::join(patternIdentities, ",");
  if (!fresh.deviation.empty())
    options.options["fresh-weights"] = "normal:" + fresh.deviation;
  if (!fresh.values.empty())
    options.options[kFreshValues.data()] = fresh.values;
  options.withKernels = withKernels;
  return options;
}

FailureOr<plan::Plan> Session::takePlan(bool withKernels) {
  if (!withKernels) {
    PassManager pm(context.get(), ModuleOp::getOperationName());
    addPhase(Phase::Plan, pm, opts);
    if (failed(pm.run(*moduleRef)))
      return failure();
  }
  return planOf(*moduleRef, planOptions(withKernels));
}

FailureOr<plan::Plan> Session::planOf(ModuleOp module, const PlanOptions &options) const {
  FailureOr<plan::Plan> plan = buildPlan(module, options);
  if (succeeded(plan) && opts.earlyGathers)
    gatherEarly(*plan);
  return plan;
}

} // namespace ztc::driver
