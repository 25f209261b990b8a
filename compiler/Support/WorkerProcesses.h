// Work in processes of its own: registries of passes, the running pass and diagnostics belong to a process, so
// compilations go side by side in several.
#pragma once
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace ztc {

/// What a task left.
struct WorkerResult {
  bool isDone = false;  ///< it succeeded
  std::string written;  ///< to its stream
  std::string messages; ///< what it said on stderr, and how it ended where it crashed
};

/// Runs task(0, stream) to task(count - 1, stream), each in a process forked from this one, at most `processes` at a
/// time, and returns what each left. `begins` is called here before each. After a task that fails no other begins:
/// those stay not done. Where the system gives no process or no place for files, tasks run in this process. Call it
/// where this process has one thread.
std::vector<WorkerResult> runInProcesses(size_t count, unsigned processes, llvm::function_ref<void(size_t)> begins,
                                         llvm::function_ref<llvm::LogicalResult(size_t, llvm::raw_ostream &)> task);

} // namespace ztc
