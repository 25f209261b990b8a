#include "compiler/Support/WorkerProcesses.h"
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

using WorkerTask = function_ref<LogicalResult(size_t, raw_ostream &)>;

std::string contentOfFile(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// The child's whole life.
[[noreturn]] void workInChild(size_t index, const std::string &written, const std::string &messages, WorkerTask task) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // without a parent there is no reader for the result
  const int file = open(messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || dup2(file, STDERR_FILENO) < 0)
    _exit(1);
  std::string text;
  raw_string_ostream stream(text);
  const bool isGood = succeeded(task(index, stream)) && writeFile(written, text);
  std::fflush(stderr);
  _exit(isGood ? 0 : 1);
}

void runWorkerHere(size_t index, WorkerTask task, WorkerResult &result) {
  raw_string_ostream stream(result.written);
  result.isDone = succeeded(task(index, stream));
}

} // namespace

std::vector<WorkerResult> runInProcesses(size_t count, unsigned processes, function_ref<void(size_t)> begins,
                                         WorkerTask task) {
  std::vector<WorkerResult> results(count);
  const ScratchFolder folder("ztc-workers");
  const auto writtenOf = [&](size_t index) { return folder / (Twine(index) + ".out"); };
  const auto messagesOf = [&](size_t index) { return folder / (Twine(index) + ".err"); };
  std::map<pid_t, size_t> running;
  bool hasFailed = false;
  // One of them has ended.
  const auto wait = [&] {
    int status = 0;
    const pid_t process = waitpid(-1, &status, 0);
    if (process < 0 && errno == EINTR)
      return;
    const auto found = running.find(process);
    if (found == running.end())
      return process < 0 ? running.clear() : void();
    WorkerResult &result = results[found->second];
    result.isDone = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    result.written = contentOfFile(writtenOf(found->second));
    result.messages = contentOfFile(messagesOf(found->second));
    if (WIFSIGNALED(status))
      result.messages += "ztc: a process of this search ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
    hasFailed |= !result.isDone;
    running.erase(found);
  };
  for (size_t index = 0; index < count && !hasFailed; ++index) {
    while (running.size() >= std::max(1u, processes))
      wait();
    if (hasFailed)
      break;
    begins(index);
    outs().flush();
    std::fflush(nullptr);
    const pid_t process = folder.path.empty() || count == 1 ? -1 : fork();
    if (process == 0)
      workInChild(index, writtenOf(index), messagesOf(index), task);
    if (process > 0) {
      running[process] = index;
      continue;
    }
    runWorkerHere(index, task, results[index]);
    hasFailed |= !results[index].isDone;
  }
  while (!running.empty())
    wait();
  return results;
}

} // namespace ztc
