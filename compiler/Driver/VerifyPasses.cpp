#include "compiler/Driver/VerifyPasses.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/SmallModel.h"
#include "compiler/Driver/VerifyKernels.h"
#include "compiler/Driver/VerifyPlan.h"
#include "compiler/Support/OutputFile.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "runtime/Core/Print.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;

namespace ztc::driver {

/// What a pass of ztc's own promises.
static Keeps keepsOf(const Pass &pass) {
  const auto *says = dynamic_cast<const SaysWhatItKeeps *>(&pass);
  return says ? says->keeps() : Keeps::Meaning;
}

/// Passes run on one thread (Session), so what runs is one pass at a time.
class PassVerifier::Instrumentation : public PassInstrumentation {
public:
  Instrumentation(PassVerifier &owner, Phase phase, StoragePrecision precision)
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
    if (keeps == Keeps::Changes && phase > Phase::Backward)
      owner.changeReference(origin ? nullptr : pass);
    std::optional<verification::StepDifference> difference = owner.verifier->afterPass(moduleOf(op), keeps, *before);
    // Between ztc's own passes a phase may be half way; where a plugin's pass runs it is not.
    if (!difference && origin)
      difference = owner.verifier->onRanksAndRounded(moduleOf(op), precision);
    if (!difference && phase > Phase::Backward)
      return;
    Ran ran = describe(*pass, origin, !isa<ModuleOp>(op));
    if (difference)
      owner.report(ran.who, &ran, *difference, "has changed what the step computes");
    else
      owner.history.push_back(std::move(ran));
  }

private:
  Ran describe(Pass &pass, const PhaseHooks::Origin *origin, bool isOnFunction) {
    Ran ran;
    ran.who = describePass(pass, origin ? StringRef(origin->plugin) : StringRef()) + " in phase " +
              allPhases()[size_t(phase)].name;
    ran.name = pass.getArgument().empty() ? "pass" : pass.getArgument().str();
    ran.isPlugins = origin;
    llvm::raw_string_ostream stream(ran.pipeline);
    stream << "builtin.module(" << (isOnFunction ? "func.func(" : "");
    pass.printAsTextualPipeline(stream);
    stream << (isOnFunction ? "))" : ")");
    ran.before = std::move(before);
    return ran;
  }
  static bool isAdaptor(Pass *pass) { return pass->getName().contains("OpToOpPassAdaptor"); }
  static ModuleOp moduleOf(Operation *op) {
    auto module = dyn_cast<ModuleOp>(op);
    return module ? module : op->getParentOfType<ModuleOp>();
  }

  PassVerifier &owner;
  Phase phase;
  StoragePrecision precision;
  OwningOpRef<ModuleOp> before;
};

std::unique_ptr<PassInstrumentation> PassVerifier::instrumentation(Phase phase, StoragePrecision precision) {
  return std::make_unique<Instrumentation>(*this, phase, precision);
}

void PassVerifier::report(const std::string &who, const Ran *ran, const verification::StepDifference &difference,
                          StringRef what) {
  broken = true;
  std::string text = ("ztc: --verify: " + who + " " + what + ": " + difference.text).str();
  if (ran) {
    std::string file = reproducer + "." + ran->name + ".mlir";
    std::string before;
    llvm::raw_string_ostream out(before);
    OpPrintingFlags flags;
    flags.enableDebugInfo(true, false);
    ran->before.get().print(out, flags);
    if (writeOutput(file, before).empty()) {
      text += "\n  the step before it is in " + file + "; the pass by itself: ztc-opt";
      for (const std::string &plugin : plugins)
        text += " --load-pass-plugin=" + plugin;
      text += " --pass-pipeline='" + ran->pipeline + "' " + file;
    }
  }
  if (ran && ran->name == "ztc-apply-patterns")
    text += "\n  patterns that are meant to change the step say so: --patterns=FILE,keeps=changes";
  else if (ran && ran->isPlugins)
    text += "\n  a pass that is meant to change the step says so: PhaseHooks::after(phase, factory, Keeps::Changes)";
  llvm::errs() << printable(text, std::string::npos) << "\n";
}

const PassVerifier::Ran *PassVerifier::firstWithWrongGradients(ModuleOp after) {
  if (history.empty() || !differentiate)
    return nullptr;
  auto stepAfter = [&](size_t count) { return count < history.size() ? history[count].before.get() : after; };
  auto isWrong = [&](size_t count) {
    OwningOpRef<ModuleOp> copy = stepAfter(count).clone();
    ScopedDiagnosticHandler silence(copy->getContext(), [](Diagnostic &) { return success(); });
    if (failed(differentiate(*copy)))
      return false; // half way: a later one tells
    verification::StepVerifier step(*copy);
    return step.wrongGradient(*copy).has_value();
  };
  if (isWrong(0)) {
    for (size_t count = 0; count < history.size(); ++count)
      if (stepAfter(count + 1).lookupSymbol("microstep"))
        return &history[count];
    return nullptr;
  }
  size_t right = 0, wrong = history.size();
  while (wrong - right > 1) {
    const size_t middle = (right + wrong) / 2;
    (isWrong(middle) ? wrong : right) = middle;
  }
  return &history[right];
}

void PassVerifier::changeReference(Pass *pass) {
  if (!pass || !afterBackward) {
    changedLate = true;
    return;
  }
  MLIRContext *context = afterBackward->getContext();
  ScopedDiagnosticHandler silence(context, [](Diagnostic &) { return success(); }); // the step's own run has spoken
  std::string pipeline;
  llvm::raw_string_ostream stream(pipeline);
  pass->printAsTextualPipeline(stream);
  PassManager pm(context, ModuleOp::getOperationName());
  changedLate |= failed(parsePassPipeline(pipeline, pm)) || failed(pm.run(*afterBackward));
}

LogicalResult PassVerifier::endPhase(Phase phase, ModuleOp module, StoragePrecision precision) {
  if (broken)
    return failure();
  const std::string name = llvm::formatv("phase {0}", allPhases()[size_t(phase)].name);
  if (std::optional<verification::StepDifference> difference = verifier->afterPhase(module, precision)) {
    const Ran *ran = difference->isGradient ? firstWithWrongGradients(module) : nullptr;
    report(ran ? ran->who : name, ran, *difference,
           difference->isGradient ? "has brought a wrong gradient" : "has changed what the step computes");
  }
  if (phase == Phase::Backward) {
    afterBackward = module.clone();
    history.clear();
  }
  return success(!broken);
}

/// Runs the plan of the session's module, which has been through phase `codegen`, and says what is wrong with it.
static bool planHolds(Session &session, ModuleOp reference, const CompileOptions &options, PlanReport &found) {
  if (!reference || session.changedForms()) {
    found.gaps.push_back("the plan in a run: a pass after phase backward changes what the step computes");
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
  std::vector<std::string> later = session.phaseHooks().passesAfter(Phase::Schedule);
  if (found.runs > found.gpuRuns)
    for (const std::string &pass : session.phaseHooks().kernelPasses())
      later.push_back(pass + " in phase codegen");
  llvm::errs() << "ztc: --verify: " << printable(found.wrong)
               << (later.empty()
                       ? ""
                       : "; the step was right up to phase schedule; after it runs " + llvm::join(later, ", "))
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
  std::optional<SmallModel> model;
  if (options.from.empty())
    model.emplace(options);
  const bool isForGpus =
      llvm::any_of(options.targets, [](const std::string &target) { return isGpuTarget(target) || target == "simt"; });
  // A graph whose sizes the exporter fixed is taken as it is, and so is IR.
  for (const bool isSmall : {true, false}) {
    if (isSmall && !options.from.empty())
      continue;
    CompileOptions small = isSmall ? model->options() : withoutOutputs(options);
    if (isForGpus && !standInFolder().empty())
      small.targets.push_back("simt");
    Session session(small);
    if (!session.isValid())
      return 2;
    Session::Messages messages;
    session.collect(messages);
    PassVerifier verifier(session.phaseHooks(), reproducer, options.plugins);
    session.verify(verifier);
    if (succeeded(session.run(last))) {
      verification::KernelReport kernels;
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
        llvm::outs() << "; the kernels of " << kernels.groups << " groups"
                     << (kernels.calls ? llvm::formatv(" and {0} of library calls", kernels.calls).str() : "")
                     << " agree with the interpreter"
                     << (kernels.onEngine ? ", on this processor and on the engine that runs those for GPUs" : "");
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
  verification::StepVerifier verifier(*first);
  std::string text;
  if (std::vector<std::string> gone = verifier.gone(*second); !gone.empty())
    text = "@" + gone.front() + " is not in " + other;
  else if (std::optional<verification::StepDifference> difference = verifier.afterPass(*second, Keeps::Meaning))
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

} // namespace ztc::driver
