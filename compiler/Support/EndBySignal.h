// What a program that a signal ends takes along: files and folders of a short while, processes that it has begun.
#pragma once
#include <string>
#include <sys/types.h>

namespace ztc {

/// For a program's main: from now on SIGINT, SIGTERM, SIGHUP (unless it is ignored: nohup), SIGPIPE and a crash end
/// first the processes of every EndedBySignal, then remove what every RemovedBySignal names, and then
/// end the program as they did before. A library's user has signals of its own, and calls this or not.
void cleanUpBySignal();

/// The same for a process that a fork has just made, and for SIGTERM alone, whatever that did before: nothing of what
/// its parent has is this one's.
void cleanUpByTermination();

/// A place in a table that a signal handler may read: fixed memory, no locks. Where the table is full, or a path is
/// longer than it takes, the signal leaves that one.
class SignalEntry {
public:
  SignalEntry(const SignalEntry &) = delete;
  SignalEntry &operator=(const SignalEntry &) = delete;

protected:
  SignalEntry(pid_t child, int signal, const std::string &path);
  ~SignalEntry();

private:
  int index_ = -1; ///< -1: none
};

/// While it lives a signal removes a file, or a folder with all in it, which need not be there. Only of the process
/// that made this: a process forked from it leaves it.
class RemovedBySignal : SignalEntry {
public:
  explicit RemovedBySignal(const std::string &path) : SignalEntry(0, 0, path) {}
};

/// While it lives a signal ends the child: by `signal` and, where it does not end within a second, by SIGKILL.
class EndedBySignal : SignalEntry {
public:
  EndedBySignal(pid_t child, int signal) : SignalEntry(child, signal, {}) {}
};

} // namespace ztc
