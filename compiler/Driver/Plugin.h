// Plugins: shared libraries that bring passes, and hooks that run them before or after a phase.
#pragma once
#include "compiler/Dialect/Kernel/KernelLevel.h"
#include "compiler/Verification/Keeps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLFunctionalExtras.h"
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

/// How messages name a pass: "pass 'swap'", followed by " of plugin swapper" where `plugin` is not empty.
std::string describePass(const mlir::Pass &pass, llvm::StringRef plugin = {});

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

  /// The pass runs on the module within phase `backward`, where @eval has its loss and nothing is differentiated yet:
  /// what it adds to the loss reaches the gradients.
  void afterLoss(Factory factory, Keeps keeps = Keeps::Changes) {
    afterLoss_[Phase::Backward].push_back({std::move(factory), keeps, plugin});
  }

  /// The pass runs on the step's module within phase `codegen`, where the kernels in `@kernels` have come to `level`.
  /// `ztc compile --verify` holds kernels to their groups, from a pass on that changes what forms compute to the forms
  /// that it leaves: `Keeps::Changes` is for KernelLevel::Forms alone.
  void after(KernelLevel level, Factory factory, Keeps keeps = Keeps::Meaning) {
    afterKernels_[level].push_back({std::move(factory), keeps, plugin});
  }

  void addBefore(Phase phase, mlir::OpPassManager &pm) { add(before_, phase, pm, Place::Before); }
  void addAfter(Phase phase, mlir::OpPassManager &pm) { add(after_, phase, pm, Place::After); }
  void addAfterLoss(mlir::OpPassManager &pm) { add(afterLoss_, Phase::Backward, pm, Place::Within); }
  /// `changed`, where given, is called after each pass that changes what kernels compute.
  void addAfter(KernelLevel level, mlir::OpPassManager &pm, llvm::function_ref<void()> changed = {}) {
    std::optional<unsigned> most = mostKernelPasses;
    for (const auto &[earlier, passes] : afterKernels_) // reached or not: a step without GPUs has no level Gpu
      if (most && earlier < level)
        *most -= std::min<unsigned>(*most, passes.size());
    add(afterKernels_, level, pm, Place::Within, most, changed);
  }

  /// Passes over kernels that plugins registered, in the order in which they run.
  std::vector<std::string> kernelPasses() const;
  /// Those that plugins registered before or after phases after `phase`, in no order.
  std::vector<std::string> passesAfter(Phase phase) const;
  /// From here on pipelines get only the first so many of them: which one breaks a kernel is found by adding them one
  /// after the other.
  void limitKernelPasses(unsigned most) { mostKernelPasses = most; }

  /// What is registered from here on belongs to this plugin.
  void setPlugin(std::string name) { plugin = std::move(name); }
  /// Where in its phase a pass runs.
  enum class Place { Before, Within, After };
  /// Of a pass that a pipeline got from here: whose it is, what it promised, where it runs.
  struct Origin {
    std::string plugin;
    Keeps keeps = Keeps::Meaning;
    Place place = Place::After;
  };
  /// A new pipeline is made: what is known of the passes of the last one says nothing about its own.
  void forgetPasses() { origins.clear(); }
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
  template <typename Where> using Table = std::map<Where, std::vector<Hook>>;
  template <typename Where>
  void add(const Table<Where> &table, Where where, mlir::OpPassManager &pm, Place place,
           std::optional<unsigned> most = {}, llvm::function_ref<void()> changed = {}) {
    if (auto found = table.find(where); found != table.end())
      for (const Hook &hook : found->second) {
        if (most && (*most)-- == 0)
          return;
        std::unique_ptr<mlir::Pass> pass = hook.factory();
        origins[pass.get()] = {hook.plugin, hook.keeps, place};
        pm.addPass(std::move(pass));
        if (changed && hook.keeps == Keeps::Changes)
          changed();
      }
  }
  Table<Phase> before_, afterLoss_, after_;
  Table<KernelLevel> afterKernels_;
  std::string plugin;
  std::map<const mlir::Pass *, Origin> origins;
  std::optional<unsigned> mostKernelPasses;
};

/// Fails where `file` is not a plugin that was built for exactly this ztc and its LLVM: the note that `ztc_add_plugin`
/// left in it is read, no code of it runs. `hash`, if given, gets 16 digits of its SHA-256.
llvm::Error checkPlugin(llvm::StringRef file, std::string *hash = nullptr);

/// Checks a plugin and loads it. It exports MLIR's `mlirGetPassPluginInfo`, which registers its passes (so `ztc-opt
/// --load-pass-plugin` works too), its optimizers and recompute policies; where it has ops of its own, MLIR's
/// `mlirGetDialectPluginInfo`, which adds their dialect to `dialects` (`ztc-opt --load-dialect-plugin`); and, where it
/// wants to take part in `ztc compile`, `extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &)`. `identity`, if
/// given, gets "name version (hash)". Fails with a message to stderr.
llvm::LogicalResult loadPlugin(llvm::StringRef file, PhaseHooks &hooks, mlir::DialectRegistry &dialects,
                               std::string *identity = nullptr);

} // namespace ztc
