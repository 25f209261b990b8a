// MLIR's own options in `ztc compile`: --mlir-timing, --mlir-print-ir-after=PASS,
// --mlir-pass-pipeline-crash-reproducer=FILE and the others that mlir-opt has for its pass manager.
#pragma once
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// What those options ask of the pass managers of one session. A program reads them once; without, as in tests, nothing
/// is asked.
class MlirOptions {
public:
  /// Gives "--mlir-..." words to MLIR, after all passes are registered, since some of the words name passes. The first
  /// call of a program counts. Fails, after LLVM's message on stderr, where MLIR does not know one.
  static llvm::LogicalResult parse(llvm::ArrayRef<std::string> words);

  MlirOptions();
  /// Times what happens while it lives, under `title` in the report of --mlir-timing.
  mlir::TimingScope scope(llvm::StringRef title) { return root.nest(title); }
  /// To be called once before `pm` runs; `scope` must outlive it.
  llvm::LogicalResult apply(mlir::PassManager &pm, mlir::TimingScope &scope) const;

private:
  mlir::DefaultTimingManager timing;
  mlir::TimingScope root; ///< the report is printed when this and the manager go
};

} // namespace ztc::driver
