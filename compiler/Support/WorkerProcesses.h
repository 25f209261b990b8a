// Work in processes of its own: registries of passes, the running pass and diagnostics belong to a process, so
// compilations go side by side in several.
#pragma once
#include "mlir/Support/LLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>

namespace ztc {

/// What a task left.
struct WorkerResult {
  bool isDone = false;  ///< it succeeded
  std::string written;  ///< to its stream
  std::string messages; ///< what it said on stderr, and how it ended where it crashed
};

/// Where processes find their work; each call but work() is in the process that calls runInProcesses().
class WorkSource {
public:
  virtual ~WorkSource() = default;
  /// The number of a task that may begin, which is given once; none where there is none, or none before one that runs
  /// has ended.
  virtual std::optional<size_t> next() = 0;
  /// In a process of its own: what it writes to the stream, and nothing else, comes back.
  virtual llvm::LogicalResult work(size_t task, llvm::raw_ostream &out) = 0;
  /// What is left of a task, in the order in which they end. After a failure no other task begins.
  virtual llvm::LogicalResult ended(size_t task, WorkerResult result) = 0;
};

/// Works until `source` has no task left, each in a process forked from this one, at most `processes` at a time. Fails,
/// when all that had begun have ended, where ended() has. Where the system gives no process or no place for files,
/// tasks run in this process. Call it where this process has one thread.
llvm::LogicalResult runInProcesses(unsigned processes, WorkSource &source);

} // namespace ztc
