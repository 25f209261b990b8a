#include "compiler/Support/EndBySignal.h"
#include "llvm/Support/Signals.h"
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ztc {
namespace {

constexpr int kEntries = 64;
constexpr size_t kLongestPath = 1024;
constexpr std::string_view kAside = "-"; ///< after the name of a folder that is on its way out

struct Entry {
  enum State { Free, Changing, Set, Taken };
  std::atomic<int> state{Free};
  pid_t owner = 0;
  pid_t child = 0; ///< 0: a file or folder
  int signal = 0;
  char path[kLongestPath] = "";
};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

std::array<Entry, kEntries> entries;
std::atomic<bool> ending{false}, isClean{false};

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
std::array<struct sigaction, kSignals.size()> before;

// From here to onSignal() everything runs in a signal handler: system calls and fixed memory, nothing else.

void sleepMs(int milliseconds) {
  poll(nullptr, 0, milliseconds);
}

/// Waits for at most a second; whether the process has ended, or is not this one's to wait for.
bool hasEnded(pid_t child) {
  for (int i = 0; i < 200; ++i) {
    const pid_t ended = waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR))
      return true;
    sleepMs(5);
  }
  return false;
}

/// Removes a folder with all in it; links are removed, not followed. readdir() takes memory, so it is not for here.
void removeTree(int parent, const char *name, int depth) { // NOLINT(misc-no-recursion): at most kDeepest
  constexpr int kDeepest = 16;
  const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return;
  bool hasRemoved = true;
  while (hasRemoved) { // entries that are removed may hide others from one reading of them
    hasRemoved = false;
    lseek(folder, 0, SEEK_SET);
    alignas(dirent64) char buffer[4096];
    long bytes = 0;
    while ((bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
      for (long at = 0; at < bytes;) {
        const auto *entry = reinterpret_cast<const dirent64 *>(buffer + at);
        at += entry->d_reclen;
        if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0)
          continue;
        if (unlinkat(folder, entry->d_name, 0) == 0)
          hasRemoved = true;
        else if (errno == EISDIR && depth < kDeepest)
          removeTree(folder, entry->d_name, depth + 1);
      }
    }
  }
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void cleanUp() {
  if (ending.exchange(true)) {
    // Another thread does it; what follows here would end the process in the middle of that.
    for (int i = 0; i < 600 && !isClean; ++i)
      sleepMs(5);
    return;
  }
  const pid_t self = getpid(); // in a process forked from the owner the table is a copy
  for (Entry &entry : entries)
    if (entry.state == Entry::Set && entry.child && entry.owner == self)
      kill(entry.child, entry.signal);
  for (Entry &entry : entries)
    if (entry.state == Entry::Set && entry.child && entry.owner == self && !hasEnded(entry.child)) {
      kill(entry.child, SIGKILL);
      hasEnded(entry.child);
    }
  for (Entry &entry : entries) {
    int expected = Entry::Set;
    if (entry.child || entry.owner != self || !entry.state.compare_exchange_strong(expected, Entry::Taken))
      continue;
    if (unlink(entry.path) == 0) // a file
      continue;
    // Aside first: what still writes, a thread or an assembler, finds no folder to make files in.
    char aside[kLongestPath + kAside.size()];
    const size_t length = strnlen(entry.path, kLongestPath - 1);
    std::memcpy(aside, entry.path, length);
    std::memcpy(aside + length, kAside.data(), kAside.size());
    aside[length + kAside.size()] = 0;
    removeTree(AT_FDCWD, rename(entry.path, aside) == 0 ? aside : entry.path, 0);
  }
  isClean = true;
}

void onSignal(int signal) {
  const int number = errno;
  cleanUp();
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (kSignals[i] == signal)
      sigaction(signal, &before[i], nullptr);
  raise(signal); // arrives when this handler has returned
  errno = number;
}

void onCrash(void *) {
  cleanUp();
}

} // namespace

SignalEntry::SignalEntry(pid_t child, int signal, const std::string &path) {
  while (ending) // the process is about to end, and has seen to what it takes along
    pause();
  if (path.size() >= kLongestPath)
    return;
  for (int i = 0; i < kEntries && index_ < 0; ++i) {
    Entry &entry = entries[size_t(i)];
    int expected = Entry::Free;
    if (!entry.state.compare_exchange_strong(expected, Entry::Changing))
      continue;
    entry.owner = getpid();
    entry.child = child;
    entry.signal = signal;
    std::memcpy(entry.path, path.c_str(), path.size() + 1);
    entry.state = Entry::Set;
    index_ = i;
  }
}

SignalEntry::~SignalEntry() {
  int expected = Entry::Set;
  if (index_ >= 0)
    entries[size_t(index_)].state.compare_exchange_strong(expected, Entry::Free); // else the handler has it
}

void cleanUpBySignal() {
  std::array<struct sigaction, kSignals.size()> found{};
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], nullptr, &found[i]);
  llvm::sys::AddSignalHandler(onCrash, nullptr); // which takes SIGINT and others too, ignored ones as well
  struct sigaction action{};
  action.sa_handler = onSignal;
  sigfillset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (found[i].sa_handler == SIG_IGN)
      sigaction(kSignals[i], &found[i], nullptr);
    else
      sigaction(kSignals[i], &action, &before[i]);
}

void cleanUpByTermination() {
  ending = isClean = false;
  static_assert(kSignals[1] == SIGTERM);
  before[1] = {};
  before[1].sa_handler = SIG_DFL;
  struct sigaction action{};
  action.sa_handler = onSignal;
  sigfillset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
}

} // namespace ztc
