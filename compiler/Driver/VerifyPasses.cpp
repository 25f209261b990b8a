#include "compiler/Driver/VerifyPasses.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/VerifyPlan.h"
#include "compiler/Verification/KernelVerifier.h"
#include "frontends/huggingface/Folder.h"
#include "frontends/huggingface/SmallForm.h"
#include "mlir/Parser/Parser.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;

namespace ztc {

/// Rows and tokens of the small form.
static constexpr uint64_t kSmallBatch = 2, kSmallSequence = 8;

/// What a pass of ztc's own promises.
static Keeps keepsOf(const Pass &pass) {
  const auto *says = dynamic_cast<const SaysWhatItKeeps *>(&pass);
  return says ? says->keeps() : Keeps::Meaning;
}

/// Passes run on one thread (Session), so what runs is one pass at a time.
class PassVerifier::Instrumentation : public PassInstrumentation {
public:
  Instrumentation(PassVerifier &owner, Phase phase, StringRef precision)
      : owner(owner), phase(phase), precision(precision) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    if (!owner.broken && !isAdaptor(pass))
      before = moduleOf(op).clone();
  }

  void runAfterPass(Pass *pass, Operation *op) override {
    if (owner.broken || isAdaptor(pass))
      return;
    const PhaseHooks::Origin *origin = owner.hooks.originOf(pass);
    ++owner.passes;
    owner.pluginPasses += origin != nullptr;
    const Keeps keeps = origin && origin->keeps != Keeps::Meaning ? origin->keeps : keepsOf(*pass);
    owner.changedLate |= keeps == Keeps::Changes && phase > Phase::Backward;
    std::optional<StepDifference> difference = owner.verifier->afterPass(moduleOf(op), keeps, *before);
    // Between ztc's own passes a phase may be half way; where a plugin's pass runs it is not.
    if (!difference && origin)
      difference = owner.verifier->onRanksAndRounded(moduleOf(op), precision);
    if (!difference)
      return;
    std::string pipeline;
    const std::string who = describePass(*pass, origin ? StringRef(origin->plugin) : StringRef()) + " in phase " +
                            allPhases()[size_t(phase)].name;
    llvm::raw_string_ostream stream(pipeline);
    const bool onFunction = !isa<ModuleOp>(op);
    stream << "builtin.module(" << (onFunction ? "func.func(" : "");
    pass->printAsTextualPipeline(stream);
    stream << (onFunction ? "))" : ")");
    owner.report(who, pass, *difference, *before, pipeline);
  }

private:
  static bool isAdaptor(Pass *pass) { return pass->getName().contains("OpToOpPassAdaptor"); }
  static ModuleOp moduleOf(Operation *op) {
    auto module = dyn_cast<ModuleOp>(op);
    return module ? module : op->getParentOfType<ModuleOp>();
  }

  PassVerifier &owner;
  Phase phase;
  std::string precision;
  OwningOpRef<ModuleOp> before;
};

std::unique_ptr<PassInstrumentation> PassVerifier::instrumentation(Phase phase, StringRef precision) {
  return std::make_unique<Instrumentation>(*this, phase, precision);
}

void PassVerifier::report(const std::string &who, const Pass *pass, const StepDifference &difference, ModuleOp before,
                          const std::string &pipeline) {
  broken = true;
  std::string text = "ztc: --verify: " + who + " has changed what the step computes: " + difference.text;
  if (before) {
    std::string name = pass && !pass->getArgument().empty() ? pass->getArgument().str() : "pass";
    std::string file = reproducer + "." + name + ".mlir";
    std::error_code error;
    llvm::raw_fd_ostream out(file, error);
    if (!error) {
      OpPrintingFlags flags;
      flags.enableDebugInfo(true, false);
      before.print(out, flags);
      text += "\n  the step before it is in " + file + "; the pass by itself: ztc-opt";
      for (const std::string &plugin : plugins)
        text += " --load-pass-plugin=" + plugin;
      text += " --pass-pipeline='" + pipeline + "' " + file;
    }
  }
  if (pass && hooks.originOf(pass))
    text += "\n  a pass that is meant to change the step says so: PhaseHooks::after(phase, factory, Keeps::Changes)";
  llvm::errs() << printable(text, std::string::npos) << "\n";
}

LogicalResult PassVerifier::endPhase(Phase phase, ModuleOp module, StringRef precision) {
  if (broken)
    return failure();
  if (std::optional<StepDifference> difference = verifier->afterPhase(module, precision))
    report(llvm::formatv("phase {0}", allPhases()[size_t(phase)].name), nullptr, *difference, ModuleOp(), "");
  if (phase == Phase::Backward)
    afterBackward = module.clone();
  return success(!broken);
}

/// The sizes that `options` leave open, small; a search for what fits a budget makes no sense of them.
static CompileOptions smallForm(CompileOptions options) {
  options.memoryBudget = 0;
  if (options.recompute == "auto")
    options.recompute = "cheap";
  options.dumpFolder.clear();
  options.remarks.clear();
  options.remarksFile.clear();
  options.saveOnnx.clear();
  options.printPipeline = false;
  options.explainPasses = false;
  options.targets = {"host"};
  options.batch = kSmallBatch;
  options.seq = kSmallSequence;
  return options;
}

/// A folder with the configuration of a small model, removed with this.
class SmallFolder {
public:
  /// Of `folder`; `path` is empty where that cannot be read or written.
  explicit SmallFolder(const std::string &folder) {
    StatusOr<std::string> config = readWholeFile(folder + "/config.json");
    llvm::SmallString<128> made;
    if (!config.isOk() || llvm::sys::fs::createUniqueDirectory("ztc-verify", made))
      return;
    path = made.str().str();
    std::error_code error;
    llvm::raw_fd_ostream(path + "/config.json", error) << huggingface::smallForm(*config);
  }
  ~SmallFolder() {
    if (!path.empty())
      (void)llvm::sys::fs::remove_directories(path);
  }
  SmallFolder(const SmallFolder &) = delete;
  std::string path;
};

/// Runs the kernels of the session's module, which has been through phase `schedule`. Where one is wrong, the first
/// plugin's pass over kernels with which it is so is named; false then.
static bool kernelsHold(Session &session, KernelReport &found) {
  const std::vector<std::string> passes = session.phaseHooks().kernelPasses();
  if (failed(session.run(Phase::Assign)))
    return false;
  const Session::Snapshot before = session.snapshot();
  auto runWith = [&](unsigned most) {
    session.phaseHooks().limitKernelPasses(most);
    session.restore(before, session.options());
    if (failed(session.run(Phase::Codegen)))
      return false;
    found = verifyKernels(session.module());
    return found.wrong.empty();
  };
  if (runWith(unsigned(passes.size())))
    return true;
  if (found.wrong.empty())
    return false; // phase codegen has said why
  const std::string wrong = found.wrong.front();
  std::string who = "phase codegen";
  for (unsigned count = 1; count <= passes.size(); ++count)
    if (!runWith(count)) {
      if (runWith(count - 1))
        who = passes[count - 1] + " in phase codegen";
      break;
    }
  llvm::errs() << "ztc: --verify: " << printable(who) << " has changed what kernels compute: " << printable(wrong)
               << "\n";
  return false;
}

/// Runs the plan of the session's module, which has been through phase `codegen`, and says what is wrong with it.
static bool planHolds(Session &session, ModuleOp reference, const CompileOptions &options, PlanReport &found) {
  if (!reference) {
    found.gaps.push_back("the plan in a run: a pass behind phase backward changes what the step computes");
    return true;
  }
  if (!options.adapter.empty() || !options.lora.empty()) {
    found.gaps.push_back("the plan in a run: it has adapters");
    return true;
  }
  if (!options.quantize.empty()) {
    found.gaps.push_back("the plan in a run: it has weights in fewer bits");
    return true;
  }
  if (failed(session.run(Phase::Plan)))
    return false;
  FailureOr<plan::Plan> plan = session.takePlan(/*withKernels=*/true);
  if (failed(plan))
    return false;
  found = verifyPlan(*plan, reference, session.options().precision, llvm::is_contained(options.targets, "simt"));
  if (found.wrong.empty())
    return true;
  // Up to phase schedule the step was right, and so are its kernels for processors.
  std::vector<std::string> behind = session.phaseHooks().passesBehind(Phase::Schedule);
  if (found.runs > found.gpuRuns)
    for (const std::string &pass : session.phaseHooks().kernelPasses())
      behind.push_back(pass + " in phase codegen");
  llvm::errs() << "ztc: --verify: " << printable(found.wrong)
               << (behind.empty()
                       ? ""
                       : "; the step was right up to phase schedule, behind it runs " + llvm::join(behind, ", "))
               << "\n";
  return false;
}

int verifyPasses(const CompileOptions &options) {
  const auto begin = std::chrono::steady_clock::now();
  std::string reproducer = options.output.empty() ? "ztc-verify" : options.output;
  Phase last = Phase::Schedule;
  if (!options.to.empty()) {
    FailureOr<Phase> to = parsePhase(options.to);
    if (failed(to))
      return 2;
    last = std::min(last, *to);
  }
  std::optional<SmallFolder> folder;
  if (options.from.empty() && huggingface::isModelFolder(options.input))
    folder.emplace(options.input);
  const bool isForGpus =
      llvm::any_of(options.targets, [](const std::string &target) { return isGpuTarget(target) || target == "simt"; });
  // A graph whose sizes the exporter fixed is taken as it is, and so is IR.
  for (const bool isSmall : {true, false}) {
    if (isSmall && !options.from.empty())
      continue;
    CompileOptions small = smallForm(options);
    if (isForGpus && !standInFolder().empty())
      small.targets.push_back("simt");
    if (!isSmall)
      small.batch = options.batch, small.seq = options.seq;
    else if (folder && !folder->path.empty())
      small.input = folder->path, small.weights.clear();
    Session session(small);
    if (!session.isValid())
      return 2;
    Session::Messages messages;
    session.collect(messages);
    PassVerifier verifier(session.phaseHooks(), reproducer, options.plugins);
    session.verify(verifier);
    if (succeeded(session.run(last))) {
      KernelReport kernels;
      if (options.to.empty() && !kernelsHold(session, kernels)) {
        for (const std::string &error : messages.errors)
          llvm::errs() << "ztc: " << printable(error) << "\n";
        return 1;
      }
      PlanReport runs;
      if (options.to.empty() && !planHolds(session, verifier.reference(), small, runs)) {
        for (const std::string &error : messages.errors)
          llvm::errs() << "ztc: " << printable(error) << "\n";
        return 1;
      }
      std::vector<std::string> gaps = verifier.step().notChecked();
      llvm::append_range(gaps, kernels.gaps);
      llvm::append_range(gaps, runs.gaps);
      if (isForGpus)
        gaps.push_back(runs.gpuRuns ? "machine code for GPUs: no GPU was asked, its kernels ran on this processor"
                                    : "kernels for GPUs: no GPU was asked");
      for (const std::string &gap : gaps)
        llvm::errs() << "ztc: --verify: not checked: " << printable(gap) << "\n";
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      llvm::outs() << llvm::formatv(
          "verified: {0} passes ({1} of plugins) keep {2} values of a step of {3} x {4} tokens, "
          "in f64 to 1e-9{5}{6}",
          verifier.passes, verifier.pluginPasses, verifier.step().values(), session.importReport().batch,
          session.importReport().seq, verifier.step().checkedRanks() ? ", on 1, 2 and 3 ranks" : "",
          verifier.step().checkedGradients() ? "; gradients agree with finite differences" : "");
      if (kernels.groups)
        llvm::outs() << "; the kernels of " << kernels.groups << " groups agree with the interpreter";
      if (runs.runs)
        llvm::outs() << "; so do two updates of a run on 1" << (runs.runs > 1 ? " and 2 ranks" : " rank")
                     << (runs.gpuRuns ? ", and with kernels for GPUs" : "");
      llvm::outs() << llvm::formatv(" ({0:f1} s)\n", seconds);
      return 0;
    }
    if (verifier.hasBegun() || !isSmall) {
      for (const std::string &error : messages.errors)
        llvm::errs() << "ztc: " << printable(error) << "\n";
      return 1;
    }
  }
  return 1;
}

int compareSteps(DialectRegistry &registry, const std::string &one, const std::string &other) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> first = parseSourceFile<ModuleOp>(one, ParserConfig(&context)),
                        second = parseSourceFile<ModuleOp>(other, ParserConfig(&context));
  if (!first || !second)
    return 2;
  StepVerifier verifier(*first);
  std::string text;
  if (std::vector<std::string> gone = verifier.gone(*second); !gone.empty())
    text = "@" + gone.front() + " is not in " + other;
  else if (std::optional<StepDifference> difference = verifier.afterPass(*second, Keeps::Meaning))
    text = difference->text;
  else if (verifier.values() == 0)
    text = "there is no function to interpret in " + one;
  if (!text.empty()) {
    llvm::errs() << "ztc-opt: --ztc-same: " << printable(text) << "\n";
    return 1;
  }
  llvm::outs() << "the same: " << verifier.values() << " values\n";
  return 0;
}

} // namespace ztc
