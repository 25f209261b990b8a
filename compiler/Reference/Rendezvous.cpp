#include "compiler/Reference/Rendezvous.h"
#include <thread>

using namespace mlir;

namespace ztc {

FailureOr<std::vector<Tensor>> Rendezvous::exchange(unsigned rank, const Tensor &mine) {
  std::unique_lock<std::mutex> lock(mutex);
  brought[rank] = mine;
  if (++arrived == size()) {
    published = brought;
    arrived = 0;
    ++round;
    changed.notify_all();
    return published;
  }
  // The next round cannot end, and overwrite what is published, before this rank has come back.
  const uint64_t mineRound = round;
  changed.wait(lock, [&] { return round != mineRound || abandoned; });
  if (round == mineRound)
    return failure();
  return published;
}

void Rendezvous::leave() {
  std::lock_guard<std::mutex> lock(mutex);
  abandoned = true;
  changed.notify_all();
}

FailureOr<std::vector<SmallVector<Tensor>>> interpretOnRanks(func::FuncOp function,
                                                             const std::vector<SmallVector<Tensor>> &arguments,
                                                             const InterpreterOptions &options) {
  if (!function.getContext()->isMultithreadingEnabled())
    return function.emitOpError("cannot be interpreted on ranks, which are threads, in a context without threads");
  Rendezvous rendezvous(unsigned(arguments.size()));
  std::vector<SmallVector<Tensor>> results(arguments.size());
  std::vector<char> done(arguments.size());
  auto runRank = [&](unsigned rank) {
    InterpreterOptions own = options;
    own.ranks = &rendezvous;
    own.rank = rank;
    FailureOr<SmallVector<Tensor>> values = interpret(function, arguments[rank], own);
    if (failed(values))
      return rendezvous.leave();
    results[rank] = std::move(*values);
    done[rank] = true;
  };
  std::vector<std::thread> threads;
  for (unsigned rank = 1; rank < arguments.size(); ++rank)
    threads.emplace_back(runRank, rank);
  runRank(0);
  for (std::thread &thread : threads)
    thread.join();
  if (llvm::is_contained(done, 0))
    return failure();
  return results;
}

} // namespace ztc
