// What the phases of a compilation were told stands in the IR between them: who goes on from there with --from neither
// says it again nor contradicts it.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// How the model of a folder begins.
struct FreshModel {
  std::string deviation; ///< of a folder without weights: what its configuration gives them
  std::string values;    ///< of what is not drawn with it (runtime/Format/FreshValues.h)
};

/// Writes into `module` the options of the phases up to `done`, in place of what is there; `fresh` as in
/// takeRecordedOptions.
void recordOptions(mlir::ModuleOp module, const CompileOptions &options, const FreshModel &fresh, Phase done);

/// What is to be said of the options beside --from.
struct RecordedOptions {
  std::string error;              ///< empty, or the option that comes too late
  std::vector<std::string> notes; ///< of options that say what the IR has
  FreshModel fresh;
};
/// Takes into `options` what the phases up to `from` were told, of IR that recordOptions or a person has written. An
/// option of such a phase that was given too is an error where it says something else.
RecordedOptions takeRecordedOptions(mlir::ModuleOp module, Phase from, CompileOptions &options);

} // namespace ztc::driver
