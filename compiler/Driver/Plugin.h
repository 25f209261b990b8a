// Plugins: shared libraries that bring passes, and hooks that run them before or after a phase.
#pragma once
#include "compiler/Dialect/Kernel/KernelLevel.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// The phases of Phases.def.
enum class Phase {
#define PHASE(enumerator, name, sentence, postCondition) enumerator,
#include "compiler/Driver/Phases.def"
};

/// Name and text of a phase, and all phases in order.
struct PhaseInfo {
  Phase phase;
  const char *name, *sentence, *postCondition;
};
llvm::ArrayRef<PhaseInfo> allPhases();

/// Where plugins put passes into the pipeline.
class PhaseHooks {
public:
  using Factory = std::function<std::unique_ptr<mlir::Pass>()>;
  /// The pass runs on the module before (after) the passes of `phase`, in order of registration. After a phase it runs
  /// before that phase's verify pass.
  void before(Phase phase, Factory factory) { before_[phase].push_back(std::move(factory)); }
  void after(Phase phase, Factory factory) { after_[phase].push_back(std::move(factory)); }

  /// The pass runs on the step's module within phase `codegen`, where the kernels in `@kernels` have come to `level`.
  void after(KernelLevel level, Factory factory) { afterKernels_[level].push_back(std::move(factory)); }

  void addBefore(Phase phase, mlir::OpPassManager &pm) const { add(before_, phase, pm); }
  void addAfter(Phase phase, mlir::OpPassManager &pm) const { add(after_, phase, pm); }
  void addAfter(KernelLevel level, mlir::OpPassManager &pm) const { add(afterKernels_, level, pm); }

private:
  template <typename Place> using Table = std::map<Place, std::vector<Factory>>;
  template <typename Place> static void add(const Table<Place> &table, Place place, mlir::OpPassManager &pm) {
    if (auto found = table.find(place); found != table.end())
      for (const Factory &factory : found->second)
        pm.addPass(factory());
  }
  Table<Phase> before_, after_;
  Table<KernelLevel> afterKernels_;
};

/// Fails where `file` is not a plugin that was built for exactly this ztc and its LLVM: the note that `ztc_add_plugin`
/// left in it is read, no code of it runs. `hash`, if given, gets 16 digits of its SHA-256.
llvm::Error checkPlugin(llvm::StringRef file, std::string *hash = nullptr);

/// Checks a plugin and loads it. It exports MLIR's `mlirGetPassPluginInfo`, which registers its passes (so `ztc-opt
/// --load-pass-plugin` works too), and, where it wants to take part in `ztc compile`, `extern "C" void
/// ztcRegisterPhaseHooks(ztc::PhaseHooks &)`. `identity`, if given, gets "name version (hash)". Fails with a message to
/// stderr.
llvm::LogicalResult loadPlugin(llvm::StringRef file, PhaseHooks &hooks, std::string *identity = nullptr);

} // namespace ztc
