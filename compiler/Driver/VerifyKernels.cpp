#include "compiler/Driver/VerifyKernels.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Driver/VerifyPlan.h"
#include "compiler/Verification/KernelImages.h"
#include "runtime/Core/Print.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/ADT/StringExtras.h"
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

bool kernelsHold(Session &session, verification::KernelReport &found) {
  if (failed(session.run(Phase::Assign)))
    return false;
  const Session::Snapshot before = session.snapshot();
  auto runWith = [&](unsigned most) {
    session.phaseHooks().limitKernelPasses(most);
    session.restore(before, session.options());
    if (failed(session.run(Phase::Codegen)))
      return false;
    found = verification::verifyKernels(session.module(), session.changedForms());
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

/// Kernels of library calls, which no net runs at their real sizes.
static std::string libraryKernels(ModuleOp module) {
  std::vector<std::string> names;
  for (auto kernel : module.getOps<plan_ir::KernelOp>())
    if (kernel.getForm() == "service")
      names.push_back(kernel.getSymName().str());
  return llvm::join(names, ", ");
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
    found = verification::verifyKernelUnits(**copy, session.changedForms());
    return found.wrong.empty();
  };
  const auto all = unsigned(session.phaseHooks().kernelPasses().size());
  if (targets == session.options().targets)
    found = verification::verifyKernelUnits(session.module(), session.changedForms());
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
  llvm::outs() << llvm::formatv("verified: {0} units of the kernels of {1} groups, at their real sizes, agree with the "
                                "interpreter{2}",
                                found.units, found.groups,
                                found.onEngine ? ", on this processor and on the engine that runs those for GPUs" : "");
  if (std::string library = libraryKernels(session.module()); !library.empty())
    llvm::outs() << "; those of library calls (" << library << ") ran at the sizes of the small plan alone";
  if (!found.small.empty())
    llvm::outs() << "; so did those of states in 8 bits (" << llvm::join(found.small, ", ") << ")";
  llvm::outs() << llvm::formatv(" ({0:f1} s)\n", seconds);
  return true;
}

} // namespace ztc::driver
