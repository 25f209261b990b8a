// The communicators there are on CPUs, and how to make them.
#pragma once
#include "runtime/Collective/Communicator.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// `world` communicators of one process, by rank, each for a thread of its own. They share memory: buffers are read
/// where they lie. A rank whose communicator is destroyed is lost for the others.
std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(uint32_t world);

/// For tests and measurements: everything goes to `inner`, and each collective takes longer by the bytes it sends
/// divided by `bytesPerSecond`. abort() ends the sleep too. `inner` must outlive it.
std::unique_ptr<Communicator> createSleepingCommunicator(Communicator &inner, double bytesPerSecond);

/// The key-value store of a rendezvous, as far as a transport needs it. Values are arbitrary bytes.
struct RendezvousStore {
  std::function<Status(const std::string &key, const std::string &value)> set;
  /// Waits until the key is there. Fails (Unavailable) with what it waited for after `timeoutMs`, or at once where the
  /// store is gone.
  std::function<StatusOr<std::string>(const std::string &key, uint64_t timeoutMs)> wait;
};

struct GlooOptions {
  uint32_t rank = 0;
  uint32_t world = 1;
  std::string address;        ///< numeric IP address to bind to: that of the route to rank 0
  std::string prefix;         ///< of the keys in the store; empty: "gloo". One for each communicator of a run
  uint64_t timeoutMs = 30000; ///< for the rendezvous; collectives wait for ever: hangs are the watchdog's business
  std::string library; ///< libztc-gloo.so; empty: beside the program or in ../lib (main fills it from ZTC_GLOO_LIBRARY)
  RendezvousStore store;
};

/// TCP between all ranks by Gloo, in a module of its own that is loaded here. Fails (FailedPrecondition) with what to
/// install where the module or libgloo is missing, Unavailable naming the rank that did not come.
/// SIGPIPE is ignored from then on where it had its default action: a lost peer must be an error, not an end.
StatusOr<std::unique_ptr<Communicator>> createGlooCommunicator(const GlooOptions &options);

} // namespace ztc
