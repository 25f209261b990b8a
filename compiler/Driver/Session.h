// One compilation: from an ONNX file, or from IR between two phases, to a plan.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"
#include "frontends/onnx/Import.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Format/plan.pb.h"
#include <optional>

namespace ztc {

/// Holds the context, the plugins and the module of one compilation.
class Session {
public:
  /// Registers dialects and passes, loads the plugins. `isValid` is false where one did not load.
  explicit Session(CompileOptions options);
  ~Session();
  bool isValid() const { return valid; }

  /// Runs the phases up to and including `last`: from the input, or from where the call before stopped. Diagnostics go
  /// to stderr.
  llvm::LogicalResult run(Phase last);

  /// The module between two phases, to go on from more than once.
  struct Snapshot {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::optional<Phase> done; ///< the last phase it has seen
  };
  Snapshot snapshot();
  /// Goes back to `snapshot` (which stays usable); `options` may differ in what later phases read.
  void restore(const Snapshot &snapshot, CompileOptions options);

  /// After `run(Phase::Plan)`, or after Phase::Assign for a plan without kernels (memory reports).
  llvm::FailureOr<plan::Plan> takePlan(bool withKernels);

  mlir::ModuleOp module() { return *moduleRef; }
  const ImportReport &importReport() const { return report; }
  const CompileOptions &options() const { return opts; }

private:
  llvm::LogicalResult importInput();
  llvm::LogicalResult runPhase(const PhaseInfo &phase);
  llvm::LogicalResult dump(const PhaseInfo &phase);

  CompileOptions opts;
  PhaseHooks hooks;
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef;
  ImportReport report;
  std::optional<Phase> done; ///< the last phase that ran
  bool valid = true;
};

/// The name of a phase to the phase; fails on an unknown one.
llvm::FailureOr<Phase> parsePhase(llvm::StringRef name);

} // namespace ztc
