#include "compiler/Support/WorkerProcesses.h"
#include "compiler/Support/EndBySignal.h"
#include "compiler/Support/ScratchFolder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace ztc {
namespace {

std::string contentOfFile(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// The child's whole life.
[[noreturn]] void workInChild(size_t task, const std::string &written, const std::string &messages,
                              WorkSource &source) {
  cleanUpByTermination();
  prctl(PR_SET_PDEATHSIG, SIGTERM); // the result is for the parent alone
  const int file = open(messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || dup2(file, STDERR_FILENO) < 0)
    _exit(1);
  std::string text;
  raw_string_ostream stream(text);
  const bool isGood = succeeded(source.work(task, stream)) && writeFile(written, text);
  std::fflush(stderr);
  _exit(isGood ? 0 : 1);
}

WorkerResult workHere(size_t task, WorkSource &source) {
  WorkerResult result;
  raw_string_ostream stream(result.written);
  result.isDone = succeeded(source.work(task, stream));
  return result;
}

} // namespace

LogicalResult runInProcesses(unsigned processes, WorkSource &source) {
  const ScratchFolder folder("ztc-workers");
  const auto writtenOf = [&](size_t task) { return folder / (Twine(task) + ".out"); };
  const auto messagesOf = [&](size_t task) { return folder / (Twine(task) + ".err"); };
  std::map<pid_t, size_t> running;
  bool hasFailed = false;
  const auto end = [&](size_t task, WorkerResult result) {
    // Of what ends after a failure nothing is asked any more.
    hasFailed = hasFailed || failed(source.ended(task, std::move(result)));
  };
  // One of them has ended.
  const auto wait = [&] {
    int status = 0;
    const pid_t process = waitpid(-1, &status, 0);
    if (process < 0 && errno == EINTR)
      return;
    const auto found = running.find(process);
    if (found == running.end()) {
      hasFailed |= process < 0; // somebody else has waited for them
      return process < 0 ? running.clear() : void();
    }
    const size_t task = found->second;
    running.erase(found);
    WorkerResult result;
    result.isDone = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    result.written = contentOfFile(writtenOf(task));
    result.messages = contentOfFile(messagesOf(task));
    if (WIFSIGNALED(status))
      result.messages += "ztc: a process of this search ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
    end(task, std::move(result));
  };
  while (!hasFailed) {
    std::optional<size_t> task;
    if (running.size() < std::max(1u, processes))
      task = source.next();
    if (!task && running.empty())
      break;
    if (!task) {
      wait();
      continue;
    }
    outs().flush();
    std::fflush(nullptr);
    const pid_t process = folder.path.empty() ? -1 : fork();
    if (process == 0)
      workInChild(*task, writtenOf(*task), messagesOf(*task), source);
    if (process > 0)
      running[process] = *task;
    else
      end(*task, workHere(*task, source));
  }
  while (!running.empty())
    wait();
  return failure(hasFailed);
}

} // namespace ztc
