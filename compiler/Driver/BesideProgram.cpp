#include "compiler/Driver/BesideProgram.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace ztc::driver {
namespace {

constexpr unsigned kMostSeconds = 900;

/// "" where it is not there.
std::string programBeside(StringRef name) {
  static int anchor;
  const std::string self = sys::fs::getMainExecutable(nullptr, &anchor);
  ErrorOr<std::string> found = sys::findProgramByName(name, {sys::path::parent_path(self)});
  return found ? *found : std::string();
}

std::string trimmedText(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path);
  return text.isOk() ? StringRef(*text).trim().str() : std::string();
}

/// A file as one of the child's standard streams.
bool becomes(const char *path, int flags, int stream) {
  const int file = open(path, flags, 0600);
  return file >= 0 && dup2(file, stream) >= 0 && (file == stream || close(file) == 0);
}

/// Runs `program` to its end; its status as of waitpid(), nothing where it cannot be started or takes too long. The
/// program is killed when this process ends.
std::optional<int> runToEnd(const std::string &program, ArrayRef<std::string> words, const std::string &written,
                            const std::string &said) {
  std::vector<char *> arguments{const_cast<char *>(program.c_str())};
  for (const std::string &word : words.drop_front())
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    constexpr int kWrite = O_WRONLY | O_CREAT | O_APPEND;
    if (getppid() == parent && becomes("/dev/null", O_RDONLY, STDIN_FILENO) &&
        becomes(written.c_str(), kWrite, STDOUT_FILENO) && becomes(said.c_str(), kWrite, STDERR_FILENO))
      execv(program.c_str(), arguments.data());
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kMostSeconds);
  int status = 0;
  pid_t ended = child;
  while (child > 0 && (ended = waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (child > 0 && ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return ended > 0 ? std::optional(status) : std::nullopt;
}

} // namespace

std::string runBeside(ArrayRef<std::string> words, const ScratchFolder &folder, std::string *output) {
  const std::string program = programBeside(words.front());
  if (program.empty())
    return words.front() + " is not beside ztc";
  const std::string said = folder / "said", written = output ? folder / "written" : said;
  for (const std::string &stale : {said, written}) // of a program before, in the same folder
    (void)sys::fs::remove(stale);
  const std::optional<int> status = runToEnd(program, words, written, said);
  if (output)
    *output = trimmedText(written);
  if (!status)
    return "it could not be started, or took longer than " + std::to_string(kMostSeconds) + " s";
  if (*status == 0)
    return {};
  if (WIFSIGNALED(*status))
    return "it was ended by signal " + std::to_string(WTERMSIG(*status));
  const std::string all = trimmedText(said), last = StringRef(all).rsplit('\n').second.str();
  return all.empty() ? "status " + std::to_string(WEXITSTATUS(*status)) : last.empty() ? all : last;
}

} // namespace ztc::driver
