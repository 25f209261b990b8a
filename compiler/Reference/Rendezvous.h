// Where the ranks of an interpreted step, one thread each, exchange tensors; and their start.
#pragma once
#include "compiler/Reference/Interpreter.h"
#include <condition_variable>
#include <mutex>
#include <vector>

namespace ztc {

/// A collective of the reference interpreter: everybody sees what everybody has. All ranks call it for the same ops in
/// the same order, as a step's functions do.
class Rendezvous {
public:
  explicit Rendezvous(unsigned ranks) : brought(ranks) {}
  unsigned size() const { return unsigned(brought.size()); }

  /// Waits for all ranks; returns what each has brought, in rank order. Fails, without a diagnostic, once a rank has
  /// left.
  llvm::FailureOr<std::vector<Tensor>> exchange(unsigned rank, const Tensor &mine);
  /// A rank that failed will bring nothing more: nobody waits for it.
  void leave();

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Tensor> brought, published;
  unsigned arrived = 0;
  uint64_t round = 0;
  bool abandoned = false;
};

/// Runs a function on `arguments.size()` ranks, each with its own arguments, and returns each rank's results. The
/// context must allow threads. `options.ranks` and `options.rank` are set here.
llvm::FailureOr<std::vector<llvm::SmallVector<Tensor>>>
interpretOnRanks(mlir::func::FuncOp function, const std::vector<llvm::SmallVector<Tensor>> &arguments,
                 const InterpreterOptions &options = {});

} // namespace ztc
