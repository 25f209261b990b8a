#include "compiler/Driver/VerifyKernels.h"
#include "compiler/Driver/VerifyPlan.h"
#include "compiler/Verification/KernelImages.h"
#include "runtime/Core/Print.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;

namespace ztc::driver {

/// Finds the first plugin's pass over kernels with which `isRight` (of the first so many of them) is no longer so, and
/// says that it has done `wrong`.
static void nameKernelPass(Session &session, llvm::function_ref<bool(unsigned)> isRight, const std::string &wrong) {
  const std::vector<std::string> passes = session.phaseHooks().kernelPasses();
  std::string who = "phase codegen";
  for (unsigned count = 1; count <= passes.size(); ++count)
    if (!isRight(count)) {
      if (isRight(count - 1))
        who = passes[count - 1] + " in phase codegen";
      break;
    }
  llvm::errs() << "ztc: --verify: " << printable(who) << " has changed what kernels compute: " << printable(wrong)
               << "\n";
}

/// What `of` has found about groups, and what there is to find about library calls.
static verification::KernelReport withLibraryKernels(verification::KernelReport of, ModuleOp module) {
  verification::KernelReport library = verification::verifyLibraryKernels(module);
  of.calls = library.calls, of.callUnits = library.callUnits;
  of.onEngine |= library.onEngine;
  llvm::append_range(of.wrong, library.wrong);
  llvm::append_range(of.gaps, library.gaps);
  return of;
}

bool kernelsHold(Session &session, verification::KernelReport &found) {
  if (failed(session.run(Phase::Assign)))
    return false;
  const Session::Snapshot before = session.snapshot();
  auto runWith = [&](unsigned most) {
    session.phaseHooks().limitKernelPasses(most);
    session.restore(before, session.options());
    if (failed(session.run(Phase::Codegen)))
      return false;
    found = withLibraryKernels(verification::verifyKernels(session.module(), session.changedForms()), session.module());
    return found.wrong.empty();
  };
  if (runWith(unsigned(session.phaseHooks().kernelPasses().size())))
    return true;
  if (found.wrong.empty())
    return false; // phase codegen has said why
  const std::string wrong = found.wrong.front();
  nameKernelPass(session, runWith, wrong);
  return false;
}

/// Those of `targets` whose kernels run on this machine, and for a GPU the engine; a processor's where there is none.
static std::vector<std::string> runnableTargets(const std::vector<std::string> &targets) {
  std::vector<std::string> runnable;
  bool isForGpus = false, hasHost = false;
  for (const std::string &target : targets) {
    isForGpus |= isGpuTarget(target);
    hasHost |= !isGpuTarget(target);
    if (!isGpuTarget(target))
      runnable.push_back(target);
  }
  if (!hasHost)
    runnable.push_back("x86-64-v3");
  if (isForGpus && !standInFolder().empty())
    runnable.push_back("simt");
  return runnable;
}

bool realKernelsHold(Session &session) {
  const auto begin = std::chrono::steady_clock::now();
  const Session::Snapshot before = session.snapshot();
  session.keepForms();
  if (failed(session.run(Phase::Codegen)))
    return false;
  const std::vector<std::string> targets = runnableTargets(session.options().targets);
  verification::KernelReport found;
  auto runWith = [&](unsigned most) {
    session.phaseHooks().limitKernelPasses(most);
    FailureOr<OwningOpRef<ModuleOp>> copy = session.kernelsOf(*before.module, targets);
    if (failed(copy))
      return false;
    found = withLibraryKernels(verification::verifyKernelUnits(**copy, session.changedForms()), **copy);
    return found.wrong.empty();
  };
  const auto all = unsigned(session.phaseHooks().kernelPasses().size());
  if (targets == session.options().targets)
    found =
        withLibraryKernels(verification::verifyKernelUnits(session.module(), session.changedForms()), session.module());
  else if (!runWith(all) && found.wrong.empty())
    return false; // phase codegen has said why
  if (!found.wrong.empty()) {
    const std::string wrong = found.wrong.front();
    nameKernelPass(session, runWith, wrong);
    return false;
  }
  std::vector<std::string> gaps = found.gaps;
  llvm::append_range(gaps, verification::outsideGaps(session.module()));
  for (const std::string &gap : gaps)
    llvm::errs() << "ztc: --verify: not checked: " << printable(gap) << "\n";
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  llvm::outs() << llvm::formatv("verified: {0} units of the kernels of {1} groups", found.units, found.groups);
  if (found.calls)
    llvm::outs() << llvm::formatv(" and {0} of {1} kernels of library calls", found.callUnits, found.calls);
  llvm::outs() << ", at their real sizes, agree with the interpreter"
               << (found.onEngine ? ", on this processor and on the engine that runs those for GPUs" : "");
  llvm::outs() << llvm::formatv("; products and collectives are those of ztc-run ({0:f1} s)\n", seconds);
  return true;
}

} // namespace ztc::driver
