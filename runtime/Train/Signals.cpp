#include "runtime/Train/Signals.h"
#include "runtime/Core/Print.h"
#include "runtime/Ranks/Launcher.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace ztc {

namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

/// A line for the handler, made beforehand. Of two: one is shown while the next one is written.
struct Line {
  size_t bytes = 0;
  char text[2048] = "";
};
Line lines[2];
std::atomic<const Line *> shown{nullptr};
std::atomic<bool> speaks{false};

/// In a signal handler. A terminal that stands still takes nothing, and does not keep the process from ending.
void sayInterruptedAgain() {
  const Line *line = shown;
  pollfd stream{STDERR_FILENO, POLLOUT, 0};
  if (speaks && line && poll(&stream, 1, 0) == 1 && (stream.revents & POLLOUT))
    (void)!write(STDERR_FILENO, line->text, line->bytes);
}

void onSignal(int signal) {
  if (signal == SIGINT && requested.exchange(signal) == SIGINT) {
    sayInterruptedAgain();
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

void sayWhenInterruptedAgain() {
  if (!shown)
    setInterruptedText("ended at once");
  speaks = true;
}

void setInterruptedText(std::string_view text) {
  // What is on a terminal may be a live line, which has no end.
  const std::string all = fmt::format("{}{}{}\n", isatty(STDOUT_FILENO) == 1 ? "\n" : "", kInterruptedAgain,
                                      printable(text, sizeof lines[0].text - 100));
  Line &line = shown == &lines[0] ? lines[1] : lines[0];
  line.bytes = std::min(all.size(), sizeof line.text);
  std::memcpy(line.text, all.data(), line.bytes);
  shown = &line;
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
