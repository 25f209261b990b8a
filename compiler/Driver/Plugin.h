// Plugins: shared libraries that bring passes, and hooks that run them before or after a phase.
#pragma once
#include "compiler/Dialect/Kernel/KernelLevel.h"
#include "compiler/Verification/Keeps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  /// before that phase's verify pass. `ztc compile --verify` holds it to what it `keeps`.
  void before(Phase phase, Factory factory, Keeps keeps = Keeps::Meaning) {
    before_[phase].push_back({std::move(factory), keeps, plugin});
  }
  void after(Phase phase, Factory factory, Keeps keeps = Keeps::Meaning) {
    after_[phase].push_back({std::move(factory), keeps, plugin});
  }

  /// The pass runs on the step's module within phase `codegen`, where the kernels in `@kernels` have come to `level`.
  void after(KernelLevel level, Factory factory) {
    afterKernels_[level].push_back({std::move(factory), Keeps::Meaning, plugin});
  }

  void addBefore(Phase phase, mlir::OpPassManager &pm) { add(before_, phase, pm); }
  void addAfter(Phase phase, mlir::OpPassManager &pm) { add(after_, phase, pm); }
  void addAfter(KernelLevel level, mlir::OpPassManager &pm) { add(afterKernels_, level, pm, mostKernelPasses); }

  /// Passes over kernels that plugins registered, in the order in which they run.
  std::vector<std::string> kernelPasses() const;
  /// From here on pipelines get only the first so many of them: which one breaks a kernel is found by adding them one
  /// after the other.
  void limitKernelPasses(unsigned most) { mostKernelPasses = most; }

  /// What is registered from here on belongs to this plugin.
  void setPlugin(std::string name) { plugin = std::move(name); }
  /// Of a pass that a pipeline got from here: whose it is, and what it promised.
  struct Origin {
    std::string plugin;
    Keeps keeps = Keeps::Meaning;
  };
  /// A new pipeline is made: what is known of the passes of the last one says nothing about its own.
  void forgetPasses() { origins.clear(), kernelPassesAdded = 0; }
  /// Null for passes of ztc's own.
  const Origin *originOf(const mlir::Pass *pass) const {
    auto found = origins.find(pass);
    return found == origins.end() ? nullptr : &found->second;
  }

private:
  struct Hook {
    Factory factory;
    Keeps keeps;
    std::string plugin;
  };
  template <typename Place> using Table = std::map<Place, std::vector<Hook>>;
  template <typename Place>
  void add(const Table<Place> &table, Place place, mlir::OpPassManager &pm, std::optional<unsigned> most = {}) {
    if (auto found = table.find(place); found != table.end())
      for (const Hook &hook : found->second) {
        if (most && kernelPassesAdded++ >= *most)
          continue;
        std::unique_ptr<mlir::Pass> pass = hook.factory();
        origins[pass.get()] = {hook.plugin, hook.keeps};
        pm.addPass(std::move(pass));
      }
  }
  Table<Phase> before_, after_;
  Table<KernelLevel> afterKernels_;
  std::string plugin;
  std::map<const mlir::Pass *, Origin> origins;
  std::optional<unsigned> mostKernelPasses;
  unsigned kernelPassesAdded = 0;
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
