// One compilation: from an ONNX file, or from IR between two phases, to a plan.
#pragma once
#include "compiler/Driver/MlirOptions.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/PassOptions.h"
#include "compiler/Driver/PhaseOptions.h"
#include "compiler/Driver/Plugin.h"
#include "compiler/Driver/ProbeSteps.h"
#include "compiler/Driver/Remarks.h"
#include "compiler/Target/PlanWriter.h"
#include "frontends/onnx/Import.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Recompute/ChooseRecomputed.h"
#include <optional>

namespace ztc::driver {

class PassExplainer;
class PassVerifier;

/// What the sizes of a plan depend on, for reports and the budget: `world` ranks and the options' micro-steps, on a
/// GPU where one of the plan's `targets` is one; with --threads, or without such a target, on a host with that many
/// threads (by default its cores, shared out).
PlanShape shapeOf(const CompileOptions &options, unsigned world, llvm::ArrayRef<std::string> targets);

/// For which ranks --mem holds: the first of --gpus, else the usual numbers of a node.
llvm::SmallVector<PlanShape> shapesOfBudget(const CompileOptions &options);

/// What lies beside the arena of a rank of such a run: --reserve, or on a GPU an estimate (DeviceReserve.h).
uint64_t reserveBytes(const CompileOptions &options, const PlanShape &shape);
/// The largest of the runs that --mem holds for.
uint64_t budgetReserveBytes(const CompileOptions &options);
/// What --mem leaves to the arena beside the largest reserve of these runs; 0: nothing.
uint64_t arenaBudgetBytes(const CompileOptions &options, llvm::ArrayRef<PlanShape> shapes);
/// The same of the runs that --mem holds for.
uint64_t arenaBudgetBytes(const CompileOptions &options);

/// StepProbe::fits on ranks of each of these shapes, up to the first that does not.
llvm::FailureOr<BudgetFit> fitsBudget(StepProbe &probe, const RecomputeChoice &choice, llvm::ArrayRef<PlanShape> shapes,
                                      uint64_t budgetBytes);

/// Holds the context, the plugins and the module of one compilation.
class Session {
public:
  /// Registers dialects and passes, loads the plugins. `isValid` is false where one did not load, or an option about
  /// passes names none.
  explicit Session(CompileOptions options);
  ~Session();
  bool isValid() const { return valid; }

  /// Runs the phases up to and including `last`: from the input, or from where the call before stopped. Diagnostics go
  /// to stderr.
  llvm::LogicalResult run(Phase last);

  /// What this session compiles is measured and thrown away, and others have verified the like: phases run without
  /// verifiers from here on.
  void leaveOutVerifiers() { verifies = false; }

  /// From here on diagnostics are kept as texts, errors apart from the rest, instead of being printed.
  struct Messages {
    std::vector<std::string> errors, others;
  };
  void collect(Messages &messages);
  /// From here on `verifier` follows each pass up to phase `schedule`; it must stay as long as the session runs.
  void verify(PassVerifier &verifier);
  /// A copy of `assigned`, the step after phase `assign`, after phase `codegen` for `targets`, by all passes of this
  /// compilation. Nothing of it is dumped, remarked or explained; changedForms() is that of the copy.
  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> kernelsOf(mlir::ModuleOp assigned,
                                                               const std::vector<std::string> &targets);
  /// From here on changedForms() is known without a verifier too.
  void keepForms() { keepsForms = true; }
  /// With a verifier, after phase `codegen`: the forms of kernels as the last pass left them that says that it changes
  /// what kernels compute. Null: none does.
  mlir::ModuleOp changedForms() { return keptForms ? *keptForms : mlir::ModuleOp(); }
  PhaseHooks &phaseHooks() { return hooks; }
  /// What --explain-passes has found out; null without it.
  const PassExplainer *explanation() const { return explainer.get(); }
  /// The phase that `run` ended in with an error.
  std::optional<Phase> failedPhase() const { return failed_; }
  /// The import tells `target` how the file's tensors follow from the weights.
  void fillWriteBack(importer::WriteBack &target) { writeBack = &target; }

  /// The module between two phases, to go on from more than once.
  struct Snapshot {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::optional<Phase> done; ///< the last phase it has seen
    CompileOptions options;    ///< with which it has come there
    std::shared_ptr<ProbeSteps> probeSteps;
  };
  Snapshot snapshot();
  /// Goes back to `snapshot` (which stays usable); `options` may differ in what later phases read.
  void restore(const Snapshot &snapshot, CompileOptions options);

  /// After `run(Phase::Plan)`, or after Phase::Assign for a plan without kernels (memory reports).
  llvm::FailureOr<plan::Plan> takePlan(bool withKernels);
  /// What is chosen after the phases, by what --mem leaves on ranks of this shape, else of each that it holds for: rows
  /// of logits, gathered parameters and fp8 codes that are kept, scores of attention's gradient. Makes of the plan of
  /// the phases the one that is written, with the peak of the run.
  llvm::LogicalResult chooseLives(plan::Plan &plan, std::optional<PlanShape> shape = {});
  /// Of a choice of recomputation, with what is chosen then for ranks of this shape: the step of the plan that a
  /// compilation writes.
  llvm::FailureOr<StepMeasure> measure(StepProbe &probe, const RecomputeChoice &choice, const PlanShape &shape,
                                       const MachineRates &rates);

  /// Seconds that no choice of recomputation falls below: nothing is computed again, and whatever can be kept is,
  /// whether there is room for it or not. Takes no layout.
  llvm::FailureOr<double> leastSeconds(StepProbe &probe, const PlanShape &shape, const MachineRates &rates);

  /// Whether `run` will search what to compute again: --recompute=auto with --mem, before phase `recompute`.
  bool isSearching() const {
    return opts.recompute == "auto" && opts.memoryBudget && (!done || *done < Phase::Recompute);
  }
  /// Of the module after phase `shard`, which must stay as long as the probe: plans without machine code. After
  /// chooseOffload() once that of the choice that was made, with the plans that it has measured.
  StepProbe probe();
  /// The search for a budget, by default --mem less --reserve, that holds on ranks of each of these shapes; time is
  /// that of the first one. That nothing fits is not a failure here.
  llvm::FailureOr<RecomputeDecision> decide(StepProbe &probe, llvm::ArrayRef<PlanShape> shapes,
                                            std::optional<uint64_t> budgetBytes = {});
  /// Decides what lies below the device, where --host-mem or --disk open a space there: with --mem as little as fits,
  /// or nothing where computing again costs less; else whatever has room. After phase `shard`; `run` asks for it too.
  llvm::LogicalResult chooseOffload();
  /// The smallest --disk-mem (`inFile`, beside the --host-mem of the options) or else the smallest --host-mem, in
  /// bytes, with which a search of what lies below the device and of what is computed again finds what fits --mem. None
  /// where no room is enough. After phase `shard`.
  llvm::FailureOr<std::optional<uint64_t>> leastRoomBelow(bool inFile);
  /// Seconds that no choice of chooseOffload() falls below on ranks of this shape, whatever is computed again: as much
  /// as persists and has no room on the device lies below, and moves. Of --mem; before chooseOffload().
  llvm::FailureOr<double> leastOffloadedSeconds(const PlanShape &shape, const MachineRates &rates);
  /// What `run` decided in phase `recompute`; none where it did not search.
  const std::optional<RecomputeDecision> &decision() const { return decided; }

  mlir::ModuleOp module() { return *moduleRef; }
  const ImportReport &importReport() const { return report; }
  const CompileOptions &options() const { return opts; }

private:
  StepProbe freshProbe();
  /// What freshProbe()'s pipeline does for a choice.
  llvm::FailureOr<ProbedPlan> probe(ProbeSteps &steps, mlir::ModuleOp sharded, const RecomputeChoice &choice);
  /// Of the module as it is now.
  std::shared_ptr<ProbeSteps> sharedSteps();
  llvm::LogicalResult importInput();
  /// Who uses this session works on the compiler: messages name ops as they are in the IR.
  bool seesIr() const {
    return !opts.from.empty() || !opts.to.empty() || !opts.plugins.empty() || !opts.patterns.empty();
  }
  /// The input is IR after phase --from. Options that come too late make the session invalid.
  llvm::LogicalResult readIr();
  llvm::LogicalResult addPhaseWithHooks(Phase phase, mlir::OpPassManager &pm);
  /// Holds the options of passes against the pipelines of this compilation before anything runs.
  llvm::LogicalResult checkPassOptions();
  PlanOptions planOptions(bool withKernels) const;
  /// The plan of `module` after phase `plan`, with the gathers that --early-gathers moves.
  llvm::FailureOr<plan::Plan> planOf(mlir::ModuleOp module, const PlanOptions &options) const;
  /// A plan without machine code of a copy of the step before phase `next`: by ztc's own passes, and by the options
  /// that say what is trained; those that say how are as by default.
  llvm::FailureOr<plan::Plan> finishByDefault(mlir::ModuleOp copy, Phase next);
  /// Gives gradients to a copy of the step before phase `precision` that has none, by ztc's own passes.
  llvm::LogicalResult differentiateByDefault(mlir::ModuleOp copy);
  /// Who updates what chooseOffload() has put into the host's memory, where --offload-update leaves it open: its cores
  /// where they are faster and their windows have room there.
  llvm::LogicalResult chooseUpdatePlace(llvm::ArrayRef<PlanShape> shapes);
  /// How many rows of logits a GPU works on at a time: --loss-rows, or what memory allows (LossRows.h) on ranks of this
  /// shape, else of each that --mem holds for.
  llvm::LogicalResult chooseLossRows(plan::Plan &plan, std::optional<PlanShape> shape);
  /// Which gathered parameters are kept over micro-steps and to the backward (KeptGathers.h): as --keep-gathered says,
  /// by what --mem leaves on ranks of this shape, else of each that it holds for. After chooseLossRows().
  llvm::LogicalResult chooseKeptGathers(plan::Plan &plan, std::optional<PlanShape> shape);
  /// Which fp8 codes of weights are kept over micro-steps and to the backward (KeptCodes.h): as --keep-fp8-weights
  /// says, by what --mem leaves, as above. After chooseKeptGathers(), which saves what is slower.
  llvm::LogicalResult chooseKeptCodes(plan::Plan &plan, std::optional<PlanShape> shape);
  /// Lets `plan` keep as much as `keep` finds room for: as the option says, of --mem.
  using PlanKeeper = llvm::function_ref<Status(plan::Plan &, llvm::ArrayRef<PlanShape>, std::optional<uint64_t>)>;
  llvm::LogicalResult chooseKept(Keeping keeping, PlanKeeper keep, plan::Plan &plan, std::optional<PlanShape> shape);
  /// The same of workspace, which without --mem keeps as much as lets the peak be what it is.
  llvm::LogicalResult grow(PlanKeeper keep, plan::Plan &plan, std::optional<PlanShape> shape);
  llvm::LogicalResult runPhase(const PhaseInfo &phase);
  llvm::LogicalResult dump(const PhaseInfo &phase);
  /// Adds what runs where kernels have come to `level`: hooks of plugins, a dump.
  void reachKernels(mlir::OpPassManager &pm, KernelLevel level);

  CompileOptions opts;
  PhaseHooks hooks;
  std::vector<std::string> pluginIdentities;  ///< "name version (hash)", as the plan keeps them
  std::vector<std::string> patternIdentities; ///< "file after phase (hash)"
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  Remarks remarks;
  std::unique_ptr<MlirOptions> mlirOptions; ///< after its options are read
  std::vector<PassOption> passOptions;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef, keptForms;
  ImportReport report;
  importer::WriteBack *writeBack = nullptr;
  PassVerifier *passVerifier = nullptr;
  std::unique_ptr<PassExplainer> explainer;
  FreshModel fresh;
  std::optional<Phase> done; ///< the last phase that ran
  std::optional<RecomputeDecision> decided;
  std::shared_ptr<ProbeSteps> probeSteps; ///< of the module as it is now; null: nothing has been asked for
  std::optional<StepProbe> offloadProbe;  ///< of what was chosen to lie below the device, until somebody asks for it
  std::optional<Phase> failed_;
  bool collecting = false, keepsForms = false;
  bool lacksScratch = false; ///< an error was one of the system's temporary folder
  bool verifies = true;
  bool valid = true;
};

/// The name of a phase to the phase; fails on an unknown one.
llvm::FailureOr<Phase> parsePhase(llvm::StringRef name);

} // namespace ztc::driver
