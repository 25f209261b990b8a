#include "compiler/Support/ChildProgram.h"
#include "compiler/Support/EndBySignal.h"
#include <chrono>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ztc {

/// A file as one of the child's standard streams.
static bool becomes(const char *path, int flags, int stream) {
  const int file = open(path, flags, 0600);
  return file >= 0 && dup2(file, stream) >= 0 && (file == stream || close(file) == 0);
}

static std::vector<char *> pointersTo(llvm::ArrayRef<std::string> words) {
  std::vector<char *> pointers;
  for (const std::string &word : words)
    pointers.push_back(const_cast<char *>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

ChildEnd runChild(const ChildProgram &program) {
  std::vector<char *> arguments = pointersTo(program.words), variables;
  arguments.insert(arguments.begin(), const_cast<char *>(program.path.c_str()));
  if (program.environment)
    variables = pointersTo(*program.environment);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) { // of a process with threads: system calls alone
    std::signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, program.ending);
    constexpr int kWrite = O_WRONLY | O_CREAT | O_APPEND;
    if (getppid() == parent && becomes("/dev/null", O_RDONLY, STDIN_FILENO) &&
        becomes(program.written.c_str(), kWrite, STDOUT_FILENO) && becomes(program.said.c_str(), kWrite, STDERR_FILENO))
      execve(program.path.c_str(), arguments.data(), program.environment ? variables.data() : environ);
    _exit(127);
  }
  if (child < 0)
    return {};
  const EndedBySignal entry(child, program.ending);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto isLate = [&] { return program.seconds && Clock::now() - began >= std::chrono::seconds(*program.seconds); };
  ChildEnd end;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && !end.isLate) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    end.isLate = isLate();
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  } else if (ended == child) {
    end = {status};
  }
  return end;
}

} // namespace ztc
