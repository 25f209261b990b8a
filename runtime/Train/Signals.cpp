#include "runtime/Train/Signals.h"
#include <atomic>
#include <csignal>

namespace ztc {

namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void onSignal(int signal) {
  if (signal == SIGINT && requested.exchange(signal) == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  requested = signal;
}

} // namespace

void installStopSignals() {
  struct sigaction action{};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGTERM, SIGINT, SIGUSR1})
    sigaction(signal, &action, nullptr);
  // A terminal that closes asks for a stop, unless nohup said that it should not matter.
  struct sigaction hangUp{};
  if (sigaction(SIGHUP, nullptr, &hangUp) == 0 && hangUp.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  // A closed pipe is an error of the write, not the end of a training run.
  std::signal(SIGPIPE, SIG_IGN);
  // Nor is a file that reaches `ulimit -f`.
  std::signal(SIGXFSZ, SIG_IGN);
}

int stopSignal() {
  return requested;
}

void clearStopSignal() {
  requested = 0;
}

const char *stopSignalName(int signal) {
  switch (signal) {
  case SIGTERM:
    return "SIGTERM";
  case SIGINT:
    return "SIGINT";
  case SIGUSR1:
    return "SIGUSR1";
  case SIGHUP:
    return "SIGHUP";
  default:
    return "signal";
  }
}

} // namespace ztc
