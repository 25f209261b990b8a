// One compilation: from an ONNX file, or from IR between two phases, to a plan.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"
#include "frontends/onnx/Import.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// Holds the context, the plugins and the module of one compilation.
class Session {
public:
  /// Registers dialects and passes, loads the plugins. `isValid` is false where one did not load.
  explicit Session(CompileOptions options);
  ~Session();
  bool isValid() const { return valid; }

  /// Runs the phases from the input up to and including `last`. Diagnostics go to stderr.
  llvm::LogicalResult run(Phase last);

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
  bool valid = true;
};

/// The name of a phase to the phase; fails on an unknown one.
llvm::FailureOr<Phase> parsePhase(llvm::StringRef name);

} // namespace ztc
